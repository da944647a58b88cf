"use strict";
Coterie.component("beliefs", {
  title: "What peers believe about each other",
  explain:
    "Each row is one peer's own table: how similar it holds every other to be. Blue was measured by " +
    "itself, orange was estimated from what others told it, empty is unknown. Stronger means more similar.",
  render(element, data) {
    const panel = Coterie.panel(element);
    const draw = () => this.render(element, data);
    const { plain, written } = Coterie;
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
      bins.clusters.map((_, place) => plain(Coterie.named(bins, place, data.clusters))),
    );
    const similarity = (cell) => run.low + (((cell - 1) % 128) / 126) * (run.high - run.low);
    const cells = Coterie.matrix(run.values, run.cells.shape, at, ...sizes, (cell) => cell);
    const digits = Math.max(0, 3 - Math.ceil(Math.log10(Math.max(Math.abs(run.high), 1e-6))));
    const trace = (word, colours, there) => ({
      type: "heatmap",
      x: names[1].map((_, place) => place),
      y: names[0].map((_, place) => place),
      z: cells.map((row) => row.map((cell) => (there(cell) ? similarity(cell) : null))),
      text: cells.map((row, i) =>
        row.map(
          (cell, j) =>
            `${names[0][i]} about ${names[1][j]}: ${there(cell) ? similarity(cell).toPrecision(3) : "?"}, ${word}`,
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
    const layout = Coterie.clusterAxes(rows, columns, data.clusters, "who believes", "about whom");
    panel.legend([
      { name: "measured", colour: data.palette.blue, shape: "square" },
      { name: "estimated", colour: data.palette.orange, shape: "square" },
      { name: "unknown", colour: Coterie.colour("card"), shape: "unknown" },
    ]);
    const label = data.strategies[run.strategy].label;
    const [measured, estimated] = run.known[at];
    const shares =
      `measured ${written(100 * measured, 0)}%, estimated ${written(100 * estimated, 0)}%, ` +
      `unknown ${written(Math.max(0, 100 * (1 - measured - estimated)), 0)}% of all pairs`;
    panel.plot(
      [
        trace("measured", blue, (cell) => cell > 0 && cell < 128),
        trace("estimated", orange, (cell) => cell > 128),
      ],
      layout,
      {
        name: "beliefs",
        height,
        square: true,
        alt: `Similarity tables of ${label} after round ${run.rounds[at]}: ${shares}.`,
      },
    );
    panel.say(
      `${label}, seed ${run.seed}, after round ${run.rounds[at]}: ${shares}. Colours reach from ` +
        `${written(run.low, digits)} (pale) to ${written(run.high, digits)} (strong). ${run.all_told ? "" : "Of so many peers only these were asked. "}${Coterie.without(data)}`,
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
