"use strict";
Coterie.component("merge", {
  title: "What merging does to a model",
  short: "What merging does",
  explain:
    "Validation of a peer's model at three moments of each round: before the merge, just after it, " +
    "and after training again. A merge that hurts at first may still help in the end.",
  render(element, data) {
    const panel = Coterie.panel(element);
    const draw = () => this.render(element, data);
    const { measure, strategies, clusters } = data;
    const strategy = panel.choice(
      "strategy",
      "Strategy",
      strategies.map((s) => s.label),
      draw,
      {
        first: data.initial_strategy,
      },
    );
    const names = ["all peers", ...(clusters.length > 1 ? clusters.map((c) => c.name) : [])];
    const cluster = panel.choice("cluster", "Peers", names, draw);
    const styles = {
      before: { name: "before the merge", colour: data.palette.blue, dash: "dash" },
      merged: { name: "just merged", colour: data.palette.vermilion },
      trained: { name: "trained again", colour: data.palette.green },
    };
    const lines = data.moments.map((moment, n) => [
      styles[moment],
      data.lines[strategy][cluster][n],
    ]);
    panel.legend(
      lines.map(([style]) => style),
      draw,
    );
    const traces = lines
      .filter(([style]) => !panel.isHidden(style.name))
      .flatMap(([style, series]) =>
        Coterie.line(series, { ...style, unit: measure.unit, digits: measure.digits }),
      );
    const title = `validation ${measure.name}${measure.unit && ` (${measure.unit})`}`;
    const layout = Coterie.overRounds(title, data.shifts);
    Object.assign(layout.yaxis, Coterie.levelAxis(measure));
    panel.plot(traces, layout, {
      name: "merge",
      alt:
        `Lines over rounds: ${title} of ${strategies[strategy].label}, ${names[cluster]}. At the end: ` +
        Coterie.writeEnds(
          lines.map(([style, series]) => [style.name, series]),
          measure.unit,
          measure.digits,
        ),
    });
    const merged = lines.some(
      ([, series], n) => data.moments[n] === "merged" && series.mean.length,
    );
    panel.setText(merged ? "" : "This strategy does not merge models, or no merge was recorded.");
  },
});
