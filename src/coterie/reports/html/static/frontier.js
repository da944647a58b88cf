"use strict";
Coterie.component("frontier", {
  title: "What it costs: results against communication",
  short: "What it costs",
  explain:
    "Each line is one strategy over its rounds; the marker is its final result. Further left is " +
    "cheaper. The dashed steps are not a fit: at each cost they show the best final result among the " +
    "strategies that cost as much or less.",
  render(element, data) {
    const panel = Coterie.panel(element);
    const draw = () => this.render(element, data);
    const { colour, plain, write, writeShort } = Coterie;
    const { measure, strategies } = data;
    const SYMBOLS = ["circle", "square", "diamond", "triangle-up", "cross", "star", "hexagon", "x"];
    const costs = [
      ["megabytes", "MB sent and received per peer"],
      ["models", "models sent and received per peer"],
    ];
    const cost =
      costs[
        panel.choice(
          "cost",
          "Cost",
          costs.map(([, title]) => title),
          draw,
        )
      ];
    const paths = data.paths
      .map((path, n) => ({ ...path, ...strategies[n] }))
      .filter((path) => path.level.length);
    const shown = paths.filter((path) => !panel.isHidden(path.label));
    const steps = "best final result at this cost or less";
    panel.legend(
      [
        ...paths.map((path) => ({ name: path.label, colour: path.colour, dash: path.dash })),
        { name: steps, colour: colour("quiet"), dash: "dash" },
      ],
      draw,
    );
    const digits = measure.digits;
    const best = keepBest(shown.map((path) => [path[cost[0]].at(-1), path.level.at(-1)]));
    const highest = Math.max(...shown.flatMap((path) => path[cost[0]]), 1e-6);
    const edge = 1.05 * highest;
    const traces = [
      ...shown.map((path) => ({
        x: path[cost[0]],
        y: path.level,
        customdata: path.round,
        name: plain(path.label),
        mode: "lines",
        line: { color: path.colour, width: 1.8, dash: path.dash },
        opacity: 0.75,
        hovertemplate: `${plain(path.label)}, round %{customdata}: %{y:.${digits}f}${measure.unit}<extra></extra>`,
      })),
      ...shown.map((path, n) => ({
        x: [path[cost[0]].at(-1)],
        y: [path.level.at(-1)],
        error_y: whisker(path),
        name: plain(path.label),
        mode: "markers",
        cliponaxis: false,
        marker: {
          color: path.colour,
          symbol: SYMBOLS[n % SYMBOLS.length],
          size: 12,
          line: { color: colour("card"), width: 1.5 },
        },
        hovertemplate: `${plain(path.label)}, final: %{y:.${digits}f}${measure.unit} for %{x:.4~g}<extra></extra>`,
      })),
    ];
    if (!panel.isHidden(steps) && best.length) {
      traces.unshift({
        x: [...best.map(([x]) => x), edge],
        y: [...best.map(([, y]) => y), best.at(-1)[1]],
        name: steps,
        mode: "lines",
        // Steps, because results between two strategies are unknown.
        line: { color: colour("quiet"), width: 1.5, dash: "dash", shape: "hv" },
        hoverinfo: "skip",
      });
    }
    const title = `test ${measure.name}${measure.unit && ` (${measure.unit})`}`;
    panel.plot(
      traces.map((trace) => ({ ...trace, showlegend: false })),
      {
        hovermode: "closest",
        xaxis: {
          title: { text: cost[1] },
          range: [-0.03 * highest, edge],
          zeroline: true,
        },
        yaxis: { title: { text: title }, ...Coterie.levelAxis(measure) },
      },
      {
        name: "frontier",
        alt:
          `${title} against ${cost[1]}. Final results: ` +
          paths
            .map(
              (w) =>
                `${w.label} ${write(w.level.at(-1), digits)} for ${writeShort(w[cost[0]].at(-1))}`,
            )
            .join(", "),
      },
    );
    panel.setText(
      "Final results: " +
        paths
          .map(
            (w) =>
              `${w.label} ${write(w.level.at(-1), digits)}${measure.unit} for ${writeShort(w.megabytes.at(-1))} MB`,
          )
          .join("; ") +
        ". Error bars are 95% intervals over seeds.",
    );

    /* Cut error bars at 0% and 100%: with few seeds an interval may reach further. */
    function whisker(path) {
      const [level, width] = [path.level.at(-1), path.width.at(-1)];
      const [down, up] = measure.unit === "%" ? [level, 100 - level] : [Infinity, Infinity];
      const known = width !== null;
      return {
        type: "data",
        symmetric: false,
        array: [known ? Math.min(width, up) : null],
        arrayminus: [known ? Math.min(width, down) : null],
        color: path.colour,
        thickness: 1.3,
      };
    }

    function keepBest(ends) {
      const sign = measure.higher_is_better ? 1 : -1;
      const sorted = [...ends].sort((a, b) => a[0] - b[0] || sign * (b[1] - a[1]));
      let reached = -Infinity;
      return sorted.filter(([, level]) => {
        if (sign * level <= reached) return false;
        reached = sign * level;
        return true;
      });
    }
  },
});
