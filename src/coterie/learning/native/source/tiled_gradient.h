/* The gradient of the kernels of tiled convolutions.
 *
 * With inputs and gradients transformed, the gradient of a transformed kernel is their product:
 * 16 multiplications for four positions instead of 36. The sums run over samples and windows, and
 * are transformed back once for all of them. Neighbouring channels of one sample fill a vector.
 */
#ifndef COTERIE_TILED_GRADIENT_H
#define COTERIE_TILED_GRADIENT_H

#include "dense_tiles.h"

#define TILE_ENTRIES (WINDOW * LANES) /* windows of samples whose tiles are in memory at a time */

typedef struct {
    int64_t inputs, outputs;       /* channels */
    int64_t padded_inputs, padded_outputs;
    int64_t line, gradient_line;   /* floats from one line of a sample to the next */
    int64_t input_apart, gradient_apart; /* from one of the 16 values of tiles to the next */
    float *tiles, *gradients;      /* (16, entry, channel) */
    float *sums;                   /* (16, output, channel) */
} TileSums;

#define SUM_OUTPUTS 4
#define SUM_VECTORS 3
#include "use_narrow.h"
#include "tile_gradient_steps.h"
#include "end_use.h"
#undef SUM_OUTPUTS
#if HAS_WIDE
#define SUM_OUTPUTS 8
#include "use_wide.h"
#include "tile_gradient_steps.h"
#include "end_use.h"
#undef SUM_OUTPUTS
#endif

/* Channels in whole wide vectors, in the tiles of gradients. */
INLINE int64_t wide_up(int64_t count) { return (count + WIDE_LANES - 1) / WIDE_LANES * WIDE_LANES; }

static int64_t num_tile_sums(const Step *s)
{
    return TILE * wide_up(s->in.channels) * wide_up(s->out.channels);
}

static TileSums tile_sums_of(const Network *n, const Step *s)
{
    TileSums k = {.inputs = s->in.channels,
                  .outputs = s->out.channels,
                  .padded_inputs = wide_up(s->in.channels),
                  .padded_outputs = wide_up(s->out.channels),
                  .line = padded_width(&s->in) * s->in.channels,
                  .gradient_line = padded_width(&s->out) * s->out.channels,
                  .tiles = n->tiles,
                  .gradients = n->products,
                  .sums = n->tile_sums};
    k.input_apart = apart_of(TILE_ENTRIES * k.padded_inputs);
    k.gradient_apart = apart_of(TILE_ENTRIES * k.padded_outputs);
    return k;
}

static void add_tile_entries(const TileSums *k, const float *const *in,
                             const float *const *gradient, int64_t count)
{
#if HAS_WIDE
    if (has_wide) {
        transform_entries_wide(k, in, gradient, count);
        sum_entries_wide(k, count);
        return;
    }
#endif
    transform_entries_narrow(k, in, gradient, count);
    sum_entries_narrow(k, count);
}

/* One side of Gᵀ m G: four values become three. */
INLINE void gradient_side(const vec m[4], vec to[3])
{
    const vec outer = all(0.5f) * (m[1] + m[2]), inner = all(0.5f) * (m[1] - m[2]);
    to[0] = m[0] + outer;
    to[1] = inner;
    to[2] = outer + m[3];
}

/* Transform the sums back, and add them to the gradient of the kernels. */
static void add_tile_sums(const TileSums *k, const Step *s, float *gradient)
{
    const int64_t apart = k->padded_outputs * k->padded_inputs;
    for (int64_t o = 0; o < k->outputs; o++)
        for (int64_t c = 0; c < k->inputs; c += LANES) {
            const float *from = k->sums + o * k->padded_inputs + c;
            float *to = gradient + o * 3 * s->padded_row + c;
            vec columns[4][3], m[4], side[3];
            for (int x = 0; x < 4; x++) {
                for (int y = 0; y < 4; y++) m[y] = load(from + (4 * y + x) * apart);
                gradient_side(m, columns[x]);
            }
            for (int y = 0; y < 3; y++) {
                for (int x = 0; x < 4; x++) m[x] = columns[x][y];
                gradient_side(m, side);
                for (int x = 0; x < 3; x++) {
                    float *at = to + y * s->padded_row + x * k->inputs;
                    const int64_t left = k->inputs - c;
                    if (left >= LANES) store(at, load(at) + side[x]);
                    else
                        for (int i = 0; i < left; i++) at[i] += side[x][i];
                }
            }
        }
}

/* The gradient of the kernels of the first samples, whose inputs and gradients lie sample by sample. */
static void tiled_weight_gradient(Network *n, const Step *s, int64_t num_samples)
{
    const TileSums k = tile_sums_of(n, s);
    const float *in[TILE_ENTRIES], *gradient[TILE_ENTRIES];
    int64_t count = 0;
    memset(k.sums, 0, sizeof(float) * (size_t)num_tile_sums(s));
    for (int64_t b = 0; b < num_samples; b++)
        for (int64_t y = 0; y < s->out.height; y += 2)
            for (int64_t x = 0; x < s->out.width; x += 2) {
                in[count] = n->inputs + b * sample_size(&s->in) + input_of(s, y, x);
                gradient[count++] =
                    n->gradients + b * sample_size(&s->out) + place_of(&s->out, y, x);
                if (count < TILE_ENTRIES) continue;
                add_tile_entries(&k, in, gradient, count);
                count = 0;
            }
    if (count) add_tile_entries(&k, in, gradient, count);
    add_tile_sums(&k, s, n->gradient + s->weights);
}

#endif
