"use strict";
Coterie.component("estimates", {
  title: "Estimated similarity between peers",
  short: "Estimated similarity",
  explain:
    "Each row is one peer's table of similarities to all other peers. Blue: measured by this peer. " +
    "Orange: estimated from the tables of other peers. Empty: unknown. A stronger colour means more " +
    "similar.",
  render(element, data) {
    const panel = Coterie.panel(element);
    const draw = () => this.render(element, data);
    const { plain, write } = Coterie;
    const run = Coterie.chooseRun(panel, data, draw);
    const at = panel.slider(
      "time",
      "Round",
      run.rounds.map((number) => `round ${number}`),
      draw,
    );
    const { rows, columns } = run.axes[run.order[at]];
    const sizes = [rows.clusters.length, columns.clusters.length];
    run.values ??= Coterie.unpack(run.cells);
    const names = [rows, columns].map((bins) =>
      bins.clusters.map((_, place) => plain(Coterie.nameBin(bins, place, data.clusters))),
    );
    const similarity = (cell) => run.low + (((cell - 1) % 128) / 126) * (run.high - run.low);
    const cells = Coterie.matrix(run.values, run.cells.shape, at, ...sizes, (cell) => cell);
    const digits = Math.max(0, 3 - Math.ceil(Math.log10(Math.max(Math.abs(run.high), 1e-6))));
    const trace = (origin, colours, isShown) => ({
      type: "heatmap",
      x: names[1].map((_, place) => place),
      y: names[0].map((_, place) => place),
      z: cells.map((row) => row.map((cell) => (isShown(cell) ? similarity(cell) : null))),
      text: cells.map((row, i) =>
        row.map(
          (cell, j) =>
            `${names[0][i]} to ${names[1][j]}: ${isShown(cell) ? similarity(cell).toPrecision(3) : "?"}, ${origin}`,
        ),
      ),
      hovertemplate: "%{text}<extra></extra>",
      hoverongaps: false,
      zmin: run.low,
      zmax: run.high,
      colorscale: colours,
      showscale: false,
    });
    const height = Coterie.squareHeight(panel);
    const [blue, orange] = scales();
    const layout = Coterie.clusterAxes(rows, columns, data.clusters, "peer with the table", "other peer");
    panel.legend([
      { name: "measured", colour: data.palette.blue, shape: "square" },
      { name: "estimated", colour: data.palette.orange, shape: "square" },
      { name: "unknown", colour: Coterie.colour("card"), shape: "unknown" },
    ]);
    const label = data.strategies[run.strategy].label;
    const [measured, estimated] = run.known[at];
    const shares =
      `measured ${write(100 * measured, 0)}%, estimated ${write(100 * estimated, 0)}%, ` +
      `unknown ${write(Math.max(0, 100 * (1 - measured - estimated)), 0)}% of all pairs`;
    panel.plot(
      [
        trace("measured", blue, (cell) => cell > 0 && cell < 128),
        trace("estimated", orange, (cell) => cell > 128),
      ],
      layout,
      {
        name: "estimates",
        height,
        square: true,
        alt: `Similarity tables of ${label} after round ${run.rounds[at]}: ${shares}.`,
      },
    );
    panel.setText(
      `${label}, seed ${run.seed}, after round ${run.rounds[at]}: ${shares}. Colours range from ` +
        `${write(run.low, digits)} (pale) to ${write(run.high, digits)} (strong). ${run.has_all_peers ? "" : "The run recorded only these peers. "}${Coterie.listWithout(data)}`,
    );

    function scales() {
      const dark = document.documentElement.dataset.theme === "dark";
      return dark
        ? [
            [
              [0, "#10304a"],
              [1, "#8fd0ff"],
            ],
            [
              [0, "#3d2c05"],
              [1, "#ffc233"],
            ],
          ]
        : [
            [
              [0, "#cfe4f3"],
              [1, "#00406b"],
            ],
            [
              [0, "#fdeccb"],
              [1, "#a86800"],
            ],
          ];
    }
  },
});
