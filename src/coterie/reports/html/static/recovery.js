"use strict";
Coterie.component("recovery", {
  title: "Did peers find their own cluster?",
  explain:
    "The groups that peers formed, compared with the true clusters. No peer knows the true clusters, " +
    "except under strategies such as the oracle.",
  render(element, data) {
    const panel = Coterie.panel(element);
    const draw = () => this.render(element, data);
    const { colour, make, write } = Coterie;
    const titles = data.measures.map((each) => each.title);
    const measure = data.measures[panel.choice("measure", "Measure", titles, draw)];
    const lines = data.strategies
      .map((strategy, n) => [strategy.label, strategy.colour, measure.lines[n], strategy.dash])
      .filter(([, , series]) => series.round.length);
    const chance = measure.chance
      ? [["random choice", colour("quiet"), measure.chance, "longdash"]]
      : [];
    const shown = [...lines, ...chance];
    panel.legend(
      shown.map(([name, hue, , dash]) => ({ name, colour: hue, dash })),
      draw,
    );
    const digits = measure.unit ? 1 : 2;
    const traces = shown
      .filter(([name]) => !panel.isHidden(name))
      .flatMap(([name, hue, series, dash]) =>
        Coterie.line(dash === "longdash" ? { ...series, num_seeds: 1 } : series, {
          name,
          colour: hue,
          dash,
          unit: measure.unit,
          digits,
        }),
      );
    const title = `${measure.title}${measure.unit && ` (${measure.unit})`}`;
    const layout = Coterie.overRounds(title, data.shifts);
    layout.yaxis.rangemode = "tozero";
    const ends = Coterie.writeEnds(
      shown.map(([name, , series]) => [name, series]),
      measure.unit,
      digits,
    );
    panel.plot(traces, layout, {
      name: `recovery-${measure.key}`,
      alt: `Lines over rounds: ${title}. At the end: ${ends}`,
    });
    const rows = data.strategies.map(({ label }, n) => [
      label,
      ...data.measures.map((each) => end(each, n)),
    ]);
    const known = rows.filter((cells) => cells.slice(1).some((text) => text !== "–"));
    panel.setText([
      make("p", { text: measure.explain }),
      Coterie.table(["at the end", ...data.measures.map((each) => each.short)], known, {
        label: "Groups and true clusters at the end",
      }),
    ]);

    function end({ lines: all, unit }, n) {
      const value = all[n].mean.at(-1);
      return value === undefined ? "–" : `${write(value, unit ? 1 : 2)}${unit}`;
    }
  },
});
