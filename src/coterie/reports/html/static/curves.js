"use strict";
Coterie.component("curves", {
  title: "How well peers do over time",
  explain:
    "Each line is the mean over peers and seeds. Its band reaches from the lowest to the highest " +
    "seed. Dotted vertical lines mark rounds in which the data changed.",
  render(element, data) {
    const panel = Coterie.panel(element);
    const draw = () => this.render(element, data);
    const { measure, strategies, clusters } = data;
    const splits = ["test", "validation"].filter((split) => hasAny(data.curves[split]));
    const titles = { test: "test data, best model", validation: "validation data, every round" };
    const split =
      splits[
        panel.choice(
          "split",
          "Measured on",
          splits.map((k) => titles[k]),
          draw,
        )
      ];
    const compare = [
      ["Strategies", ["all peers", ...(clusters.length > 1 ? clusters.map((c) => c.name) : [])]],
      ...(clusters.length > 1
        ? [["Clusters of one strategy", strategies.map((s) => s.label)]]
        : []),
    ];
    const chosen = panel.choice("view", "Compare", [], draw, { groups: compare });
    const numFirst = compare[0][1].length;
    const lines =
      chosen < numFirst
        ? strategies.map((s, n) => [s.label, s.colour, data.curves[split][n][chosen], s.dash])
        : clusters.map((c, n) => [c.name, c.colour, data.curves[split][chosen - numFirst][n + 1]]);
    const about =
      chosen < numFirst ? compare[0][1][chosen] : `clusters of ${compare[1][1][chosen - numFirst]}`;
    panel.legend(
      lines.map(([name, colour, , dash]) => ({ name, colour, dash })),
      draw,
    );
    const unit = measure.unit;
    const traces = lines
      .filter(([name]) => !panel.isHidden(name))
      .flatMap(([name, colour, series, dash]) =>
        Coterie.line(series, { name, colour, dash, unit, digits: measure.digits }),
      );
    const title = `${split} ${measure.name}${unit && ` (${unit})`}`;
    const layout = Coterie.overRounds(title, data.shifts);
    Object.assign(layout.yaxis, Coterie.levelAxis(measure));
    panel.plot(traces, layout, {
      name: "curves",
      alt:
        `Lines over rounds: ${title}, ${about}. At the end: ` +
        Coterie.writeEnds(
          lines.map(([name, , series]) => [name, series]),
          unit,
          measure.digits,
        ),
    });

    function hasAny(curves) {
      return curves.some((clusters) => clusters.some((series) => series.round.length));
    }
  },
});
