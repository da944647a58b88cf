"use strict";
Coterie.component("gains", {
  title: "Did it help? Gain of each peer over training alone",
  short: "Did it help?",
  explain:
    "One bar per peer, sorted. It shows how much better the peer's final model is than after training " +
    "alone with the same seed and data. Peers with a bar below zero were harmed.",
  render(element, data) {
    const panel = Coterie.panel(element);
    const draw = () => this.render(element, data);
    const { make, plain, write } = Coterie;
    const { measure, strategies, clusters } = data;
    const { helped: HELPED, harmed: HARMED } = data.palette;
    const places = [...new Set(data.runs.map((run) => run.strategy))];
    const labels = places.map((place) => strategies[place].label);
    const first = places.indexOf(data.initial_strategy);
    const chosen = panel.choice("strategy", "Strategy", labels, draw, { first });
    const runs = data.runs.filter((run) => run.strategy === places[chosen]);
    const seeds = runs.map((run) => `seed ${run.seed}`);
    const which = panel.choice(
      "seed",
      "Seeds",
      seeds.length > 1 ? ["all seeds", ...seeds] : seeds,
      draw,
    );
    const all = seeds.length > 1;
    const used = all && which === 0 ? runs : [runs[all ? which - 1 : 0]];
    const peers = used
      .flatMap((run) =>
        run.gains.map((gain, peer) => ({
          gain,
          peer,
          seed: run.seed,
          cluster: run.clusters[peer],
        })),
      )
      .filter(({ gain }) => gain !== null)
      .sort((one, other) => other.gain - one.gain || one.peer - other.peer);
    const harmed = peers.filter(({ gain }) => gain < 0);
    const unit = measure.unit === "%" ? " points" : "";
    const name = ({ peer, seed, cluster }) =>
      `peer ${peer} (${clusters[cluster]?.name ?? "?"}${used.length > 1 ? `, seed ${seed}` : ""})`;
    panel.legend([
      { name: `gained: ${peers.length - harmed.length}`, colour: HELPED, shape: "square" },
      { name: `harmed: ${harmed.length}`, colour: HARMED, shape: "square" },
    ]);
    const change = measure.higher_is_better ? "gain in" : "reduction of";
    const title = `${change} test ${measure.name}${unit && ` (${unit.trim()})`}`;
    panel.plot(
      [
        {
          type: "bar",
          x: peers.map((_, place) => place + 1),
          y: peers.map(({ gain }) => gain),
          text: peers.map((each) => plain(name(each))),
          textposition: "none",
          marker: {
            color: peers.map(({ gain }) => (gain < 0 ? HARMED : HELPED)),
            line: { width: 0 },
          },
          hovertemplate: `%{text}: %{y:+.${measure.digits}f}${unit}<extra></extra>`,
        },
      ],
      {
        bargap: peers.length > 150 ? 0 : 0.15,
        xaxis: { title: { text: "peers, sorted by gain" }, showgrid: false },
        yaxis: { title: { text: title }, zeroline: true, zerolinecolor: Coterie.colour("quiet") },
      },
      {
        name: "gains",
        alt:
          `Sorted bars of ${peers.length} peers under ${labels[chosen]}: ${title} over training ` +
          `alone. ${harmed.length} were harmed.`,
      },
    );
    panel.setText([make("p", { text: describe() }), ...listHarmed(), table()]);

    function describe() {
      const mean = peers.reduce((sum, { gain }) => sum + gain, 0) / Math.max(1, peers.length);
      const left = used.reduce((sum, run) => sum + run.num_poisoned, 0);
      const share = peers.length ? Math.round((100 * harmed.length) / peers.length) : 0;
      return (
        `${labels[chosen]}, after round ${Math.max(...used.map((run) => run.round))}: ` +
        `${mean > 0 ? "+" : ""}${write(mean, measure.digits)}${unit} on average; ` +
        (harmed.length
          ? `${harmed.length} of ${peers.length} (${share}%) were harmed.`
          : "no peer was harmed.") +
        (left ? ` Poisoned peers (${left}) are left out.` : "")
      );
    }

    function listHarmed() {
      if (!harmed.length) return [];
      const worst = [...harmed].reverse();
      const lines = worst.map((each) => `${name(each)} ${write(each.gain, measure.digits)}`);
      return [
        make("details", {}, [
          make("summary", { text: "Harmed peers, the worst first" }),
          make("p", { text: `${lines.slice(0, 200).join("; ")}${lines.length > 200 ? "; …" : "."}` }),
        ]),
      ];
    }

    function table() {
      const rows = clusters.map((cluster, number) => {
        const mine = peers.filter((each) => each.cluster === number);
        const sum = mine.reduce((total, { gain }) => total + gain, 0);
        const mean = mine.length ? write(sum / mine.length, measure.digits) : "–";
        const numHarmed = mine.filter(({ gain }) => gain < 0).length;
        return [cluster.name, mean, `${numHarmed} of ${mine.length}`];
      });
      const head = ["cluster", `mean gain${unit && ` (${unit.trim()})`}`, "harmed"];
      return Coterie.table(head, rows, { label: "Gains by cluster" });
    }
  },
});
