"use strict";
Coterie.component("frontier", {
  title: "What it costs: results against communication",
  short: "What it costs",
  explain:
    "Each line is a strategy's way through the run, its dot where it ended: further left is " +
    "cheaper. The dashed steps are not a fit: at each cost they show the best end among the " +
    "strategies that cost as much or less.",
  render(element, data) {
    const panel = Coterie.panel(element);
    const draw = () => this.render(element, data);
    const { colour, plain, short, written } = Coterie;
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
    const ways = data.ways
      .map((way, n) => ({ ...way, ...strategies[n] }))
      .filter((way) => way.level.length);
    const shown = ways.filter((way) => !panel.hidden(way.label));
    const steps = `${measure.higher_is_better ? "highest" : "lowest"} end for this cost or less`;
    panel.legend(
      [
        ...ways.map((way) => ({ name: way.label, colour: way.colour, dash: way.dash })),
        { name: steps, colour: colour("quiet"), dash: "dash" },
      ],
      draw,
    );
    const digits = measure.digits;
    const best = unbeaten(shown.map((way) => [way[cost[0]].at(-1), way.level.at(-1)]));
    const dearest = Math.max(...shown.flatMap((way) => way[cost[0]]), 1e-6);
    const edge = 1.05 * dearest;
    const traces = [
      ...shown.map((way) => ({
        x: way[cost[0]],
        y: way.level,
        customdata: way.round,
        name: plain(way.label),
        mode: "lines",
        line: { color: way.colour, width: 1.8, dash: way.dash },
        opacity: 0.75,
        hovertemplate: `${plain(way.label)}, round %{customdata}: %{y:.${digits}f}${measure.unit}<extra></extra>`,
      })),
      ...shown.map((way, n) => ({
        x: [way[cost[0]].at(-1)],
        y: [way.level.at(-1)],
        error_y: whisker(way),
        name: plain(way.label),
        mode: "markers",
        cliponaxis: false,
        marker: {
          color: way.colour,
          symbol: SYMBOLS[n % SYMBOLS.length],
          size: 12,
          line: { color: colour("card"), width: 1.5 },
        },
        hovertemplate: `${plain(way.label)}, end: %{y:.${digits}f}${measure.unit} for %{x:.4~g}<extra></extra>`,
      })),
    ];
    if (!panel.hidden(steps) && best.length) {
      traces.unshift({
        x: [...best.map(([x]) => x), edge],
        y: [...best.map(([, y]) => y), best.at(-1)[1]],
        name: steps,
        mode: "lines",
        // Level until the cost of a better one is reached: nothing is known of what lies between.
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
          range: [-0.03 * dearest, edge],
          zeroline: true,
        },
        yaxis: { title: { text: title }, ...Coterie.levelAxis(measure) },
      },
      {
        name: "frontier",
        alt:
          `${title} against ${cost[1]}. Ends: ` +
          ways
            .map(
              (w) =>
                `${w.label} ${written(w.level.at(-1), digits)} for ${short(w[cost[0]].at(-1))}`,
            )
            .join(", "),
      },
    );
    panel.say(
      "Ends: " +
        ways
          .map(
            (w) =>
              `${w.label} ${written(w.level.at(-1), digits)}${measure.unit} for ${short(w.megabytes.at(-1))} MB`,
          )
          .join("; ") +
        ". Whiskers are 95% intervals over seeds.",
    );

    /* With few seeds an interval may reach beyond what an accuracy can be; the picture should not. */
    function whisker(way) {
      const [level, width] = [way.level.at(-1), way.width.at(-1)];
      const [down, up] = measure.unit === "%" ? [level, 100 - level] : [Infinity, Infinity];
      const known = width !== null;
      return {
        type: "data",
        symmetric: false,
        array: [known ? Math.min(width, up) : null],
        arrayminus: [known ? Math.min(width, down) : null],
        color: way.colour,
        thickness: 1.3,
      };
    }

    function unbeaten(ends) {
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
