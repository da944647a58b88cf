/* Dense convolutions of 3 x 3 by Winograd's minimal filtering F(2 x 2, 3 x 3), as in winograd.h:
 * forward, and for the gradient of the inputs, which is a convolution with turned kernels.
 */
#ifndef COTERIE_DENSE_TILES_H
#define COTERIE_DENSE_TILES_H

#include "winograd.h"

/* Channels and positions from which on it is faster than without. */
#define FEWEST_TILED 16
#define FEWEST_POSITIONS 64

/* Whether a dense convolution is computed by tiles: images of even sides, and many channels. */
static int is_tiled(const Step *s)
{
    return s->is_dense && s->is.kernel[0] == 3 && s->is.kernel[1] == 3 && s->is.stride[0] == 1 &&
           s->is.stride[1] == 1 && s->in.channels >= FEWEST_TILED &&
           s->out.channels >= FEWEST_TILED &&
           s->out.height * s->out.width >= FEWEST_POSITIONS && s->in.height % 2 == 0 && s->in.width % 2 == 0 &&
           s->out.height % 2 == 0 && s->out.width % 2 == 0;
}

/* Transform the weights of all layers of a network that need it, after they have changed. */
static void transform_all_kernels(const Network *n)
{
    for (int32_t i = 0; i < n->num_steps; i++)
        if (is_winograd(&n->steps[i]) || is_tiled(&n->steps[i]))
            transform_kernels(n, &n->steps[i]);
}

/* Bring transformed kernels to (16, input channel, output), turned by half a circle: that
 * exchanges the first and the last of the four values along each side. */
static void turn_kernels(const Step *s)
{
    static const int turned[4] = {3, 1, 2, 0};
    const int64_t inputs = s->in.channels, outputs = s->out.channels;
    const int64_t from_row = rounded_up(inputs), to_row = rounded_up(outputs);
    for (int i = 0; i < TILE; i++) {
        const float *from = s->kernels + i * apart_of(outputs * from_row);
        float *to = s->flipped + (4 * turned[i / 4] + turned[i % 4]) * apart_of(inputs * to_row);
        for (int64_t o = 0; o < outputs; o += LANES)
            for (int64_t c = 0; c < inputs; c += LANES) {
                vec row[LANES], column[LANES];
                for (int b = 0; b < LANES; b++)
                    row[b] = o + b < outputs ? load(from + (o + b) * from_row + c) : all(0);
                transpose(row, column);
                for (int b = 0; b < LANES && c + b < inputs; b++)
                    store(to + (c + b) * to_row + o, column[b]);
            }
    }
}

static void tiled_forward(const Network *n, const Step *s)
{
    const Tiling k = tiling_of(n, s);
    tiled_image(&k, s->in.value + input_of(s, 0, 0) * LANES,
                s->out.value + place_of(&s->out, 0, 0) * LANES, NULL, s->out.height / 2,
                s->out.width / 2);
}

/* The gradient of the inputs, from that of the outputs within a border of zeros. */
static void tiled_input_gradient(const Network *n, const Step *s, const Tensor *bordered)
{
    const int64_t down = s->is.padding[0] - 2 + bordered->pad_height;
    const int64_t right = s->is.padding[1] - 2 + bordered->pad_width;
    turn_kernels(s);
    const Tiling k = {.inputs = s->out.channels,
                      .outputs = s->in.channels,
                      .line = padded_width(bordered) * s->out.channels * LANES,
                      .out_line = padded_width(&s->in) * s->in.channels * LANES,
                      .kernels = s->flipped,
                      .tiles = n->tiles,
                      .products = n->products};
    const float *first = bordered->gradient +
                         (down * padded_width(bordered) + right) * s->out.channels * LANES;
    tiled_image(&k, first, s->in.gradient + place_of(&s->in, 0, 0) * LANES, NULL,
                s->in.height / 2, s->in.width / 2);
}

#endif
