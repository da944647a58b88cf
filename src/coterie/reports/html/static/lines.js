"use strict";
/* Lines over rounds with bands over seeds, and dashed lines where the data shifted. */
(() => {
  const { colour, faded, plain, written } = Coterie;

  /* Traces of one series {round, mean, low, high, num_seeds}. */
  Coterie.line = (series, { name, colour: hue, dash, unit = "", digits = 1 }) => {
    const band =
      series.num_seeds > 1
        ? [
            {
              x: [...series.round, ...[...series.round].reverse()],
              y: [...series.high, ...[...series.low].reverse()],
              fill: "toself",
              fillcolor: faded(hue, 0.18),
              line: { width: 0 },
              mode: "lines",
              hoverinfo: "skip",
              showlegend: false,
            },
          ]
        : [];
    return [
      ...band,
      {
        x: series.round,
        y: series.mean,
        name: plain(name),
        mode: series.round.length < 12 ? "lines+markers" : "lines",
        line: { color: hue, width: 2.2, dash },
        marker: { size: 6 },
        hovertemplate: `%{y:.${digits}f}${unit}`,
        showlegend: false,
      },
    ];
  };

  Coterie.shiftLines = (shifts) =>
    (shifts || []).map((round) => ({
      type: "line",
      x0: round - 0.5,
      x1: round - 0.5,
      yref: "paper",
      y0: 0,
      y1: 1,
      line: { color: colour("quiet"), width: 1.5, dash: "dot" },
    }));

  Coterie.overRounds = (title, shifts = []) => ({
    hovermode: "x unified",
    shapes: Coterie.shiftLines(shifts),
    xaxis: { title: { text: "round" }, rangemode: "tozero" },
    yaxis: { title: { text: plain(title) } },
  });

  /* Errors shrink by orders of magnitude, which only a logarithmic axis can show. */
  Coterie.levelAxis = (measure) =>
    measure.higher_is_better
      ? {}
      : { type: "log", dtick: "D2", exponentformat: "power", minorloglabels: "none" };

  /* "dac 66.4 %, random 55.8 %": the ends of lines, in words. */
  Coterie.ends = (list, unit = "", digits = 1) =>
    list
      .filter(([, series]) => series.mean.length)
      .map(
        ([name, series]) => `${name} ${written(series.mean.at(-1), digits)}${unit && ` ${unit}`}`,
      )
      .join(", ");
})();
