"use strict";
/* Square matrices of peers ordered by cluster, with lines between clusters. */
(() => {
  const { colour, plain } = Coterie;

  /* Let the reader choose a strategy and a seed; return that run of data.runs. */
  Coterie.chooseRun = (panel, data, draw) => {
    const places = [...new Set(data.runs.map((run) => run.strategy))];
    const labels = places.map((place) => data.strategies[place].label);
    const first = places.indexOf(data.initial_strategy);
    const strategy = places[panel.choice("strategy", "Strategy", labels, draw, { first })];
    const runs = data.runs.filter((run) => run.strategy === strategy);
    const seed = panel.choice(
      "seed",
      "Seed",
      runs.map((run) => String(run.seed)),
      draw,
    );
    return runs[Math.min(seed, runs.length - 1)];
  };

  Coterie.nameRounds = (first, last) => (first === last ? `round ${first}` : `rounds ${first}–${last}`);

  /* Name a bin: "peer 12 (90°)", or "10 peers (90°)"; add whether it is poisoned. */
  Coterie.nameBin = (bins, place, clusters, poisoned = []) => {
    const peers = bins.peers[place];
    const where = clusters[bins.clusters[place]]?.name ?? "?";
    const numPoisoned = peers.filter((peer) => poisoned.includes(peer)).length;
    const single = peers.length === 1;
    const note = numPoisoned ? `, ${single ? "" : `${numPoisoned} of them `}poisoned` : "";
    return `${single ? `peer ${peers[0]}` : `${peers.length} peers`} (${where}${note})`;
  };

  /* Return the rows of one matrix of a packed (T, R, C) array. */
  Coterie.matrix = (cells, [, height, width], time, numRows, numColumns, value) =>
    Array.from({ length: numRows }, (_, row) =>
      Array.from({ length: numColumns }, (_, column) =>
        value(cells[(time * height + row) * width + column]),
      ),
    );

  /* Return axes with the names of the clusters, and lines between clusters; rows and columns are bins. */
  Coterie.clusterAxes = (rows, columns, clusters, rowTitle, columnTitle) => {
    const [down, across] = [axis(rows, clusters), axis(columns, clusters)];
    const line = { color: colour("ink"), width: 1.4 };
    return {
      shapes: [
        ...across.edges.map((at) => ({
          type: "line",
          x0: at,
          x1: at,
          y0: -0.5,
          y1: down.end,
          line,
        })),
        ...down.edges.map((at) => ({
          type: "line",
          y0: at,
          y1: at,
          x0: -0.5,
          x1: across.end,
          line,
        })),
      ],
      xaxis: {
        ...across.ticks,
        title: { text: columnTitle },
        range: [-0.5, across.end],
        constrain: "domain",
      },
      yaxis: {
        ...down.ticks,
        title: { text: rowTitle },
        range: [down.end, -0.5],
        constrain: "domain",
        tickangle: -90,
        ...(down.end === across.end ? { scaleanchor: "x" } : {}),
      },
    };
  };

  function axis(bins, clusters) {
    const runs = [];
    bins.clusters.forEach((cluster, place) => {
      if (runs.at(-1)?.cluster === cluster) runs.at(-1).last = place;
      else runs.push({ cluster, first: place, last: place });
    });
    const name = (run) => plain(shorten(clusters[run.cluster]?.name ?? "?", runs.length));
    return {
      end: bins.clusters.length - 0.5,
      edges: runs.slice(1).map((run) => run.first - 0.5),
      ticks: {
        tickvals: runs.map((run) => (run.first + run.last) / 2),
        ticktext: runs.map(name),
        showgrid: false,
        zeroline: false,
        ticks: "",
      },
    };
  }

  function shorten(name, count) {
    const limit = Math.max(6, Math.floor(48 / count));
    return name.length > limit ? `${name.slice(0, limit - 1)}…` : name;
  }

  /* Return the height of a square figure: about its width, within limits. */
  Coterie.squareHeight = (panel) => {
    const width = panel.element.clientWidth;
    return Math.max(300, Math.min(600, (width < 520 ? 0.85 : 0.95) * width));
  };

  Coterie.listWithout = (data) =>
    data.without?.length
      ? `Not shown, because these strategies have no such data: ${data.without.join(", ")}.`
      : "";
})();
