"use strict";
/* Lines over rounds with bands over seeds, and dashed lines where the data shifted. */
(() => {
  const { colour, fade, plain, write } = Coterie;

  /* Return the traces of one series {round, mean, low, high, num_seeds}. */
  Coterie.line = (series, { name, colour: hue, dash, unit = "", digits = 1 }) => {
    const band =
      series.num_seeds > 1
        ? [
            {
              x: [...series.round, ...[...series.round].reverse()],
              y: [...series.high, ...[...series.low].reverse()],
              fill: "toself",
              fillcolor: fade(hue, 0.18),
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

  /* Return a logarithmic axis for errors, which shrink by orders of magnitude. */
  Coterie.levelAxis = (measure) =>
    measure.higher_is_better
      ? {}
      : { type: "log", nticks: 8, exponentformat: "power" };

  /* Write the last values of lines: "dac 66.4 %, random 55.8 %". */
  Coterie.writeEnds = (list, unit = "", digits = 1) =>
    list
      .filter(([, series]) => series.mean.length)
      .map(
        ([name, series]) => `${name} ${write(series.mean.at(-1), digits)}${unit && ` ${unit}`}`,
      )
      .join(", ");
})();
