"use strict";
Coterie.component("heatmap", {
  title: "Which peer fetched which model",
  explain:
    "A row is the peer that received a model. A column is the peer whose model it was. Peers are " +
    "ordered by true cluster, with lines between clusters. Filled squares on the diagonal mean that " +
    "peers exchange models within their own cluster. An empty column is a peer whose model no other " +
    "peer took. Move the slider to see other rounds.",
  render(element, data) {
    const panel = Coterie.panel(element);
    const draw = () => this.render(element, data);
    const { plain } = Coterie;
    const run = Coterie.chooseRun(panel, data, draw);
    const times = run.windows.map(([, first, last]) => Coterie.nameRounds(first, last));
    const at = panel.slider("time", "Time", times, draw);
    const sum = panel.check("sum", "add up all rounds since the start or the last shift", draw);
    const [step, , last] = run.windows[at];
    const windows = run.windows.flatMap((each, n) =>
      n === at || (sum && n < at && each[0] === step) ? [n] : [],
    );
    const first = run.windows[windows[0]][1];
    const bins = run.bins[step];
    const count = bins.clusters.length;
    run.values ??= Coterie.unpack(run.cells);
    const z = windows
      .map((n) =>
        Coterie.matrix(run.values, run.cells.shape, n, count, count, (cell) => cell * run.unit),
      )
      .reduce((one, other) => one.map((row, i) => row.map((value, j) => value + other[i][j])));
    const names = bins.clusters.map((_, place) =>
      plain(Coterie.nameBin(bins, place, data.clusters, run.poisoned)),
    );
    const exact = run.unit === 1;
    const highest = Math.max(...z.flat(), exact ? 1 : 1e-9);
    const label = data.strategies[run.strategy].label;
    const traces = [
      {
        type: "heatmap",
        z,
        x: names.map((_, place) => place),
        y: names.map((_, place) => place),
        text: z.map((row, i) =>
          row.map(
            (value, j) =>
              `${names[i]} fetched from ${names[j]}: ${exact ? value : value.toPrecision(2)}×`,
          ),
        ),
        hovertemplate: "%{text}<extra></extra>",
        colorscale: scale(),
        zmin: 0,
        zmax: highest,
        xgap: count > 60 ? 0 : 0.5,
        ygap: count > 60 ? 0 : 0.5,
        colorbar: {
          thickness: 12,
          len: 0.9,
          outlinewidth: 0,
          title: { text: exact ? "times" : "mean", side: "top" },
          ...(exact ? { dtick: Math.ceil(highest / 6), tickformat: "d" } : {}),
        },
      },
    ];
    const height = Coterie.squareHeight(panel);
    const layout = Coterie.clusterAxes(bins, bins, data.clusters, "peer that received", "peer whose model it was");
    const time = Coterie.nameRounds(first, last);
    panel.legend([]);
    panel.plot(traces, layout, {
      name: "heatmap",
      height,
      square: true,
      alt: `Matrix of ${count} by ${count}: which peer fetched which model under ${label}, ${time}.`,
    });
    const binned = bins.peers.some((peers) => peers.length > 1);
    panel.setText(
      `${label}, seed ${run.seed}, ${time}.` +
        (binned ? " Several peers of one cluster share a row; cells are means per pair." : "") +
        ` ${Coterie.listWithout(data)}`,
    );

    /* Colours differ in lightness only; the colour of 0 is that of the page. */
    function scale() {
      const dark = document.documentElement.dataset.theme === "dark";
      const { sequential } = data.palette;
      const steps = dark ? [Coterie.colour("card"), ...sequential.slice(1).reverse()] : sequential;
      return steps.map((hue, n) => [n / (steps.length - 1), hue]);
    }
  },
});
