/* Convolutions whose gradients have few zeros, such as those before a normalisation.
 *
 * Forward and for the gradient of the inputs, eight samples fill a vector, as in convolution.h: the
 * second is a convolution of the gradient with the kernels by input channel, one for each place
 * within a stride. For the gradient of the weights, the values of a kernel row fill vectors, and
 * the sums run over samples and positions.
 */
#ifndef COTERIE_DENSE_CONVOLUTION_H
#define COTERIE_DENSE_CONVOLUTION_H

#include "convolution_gradient.h"

#define MANY_OUTPUTS 12            /* of a single position */
#define ENTRIES 256                /* sample positions whose inputs stay in the nearest cache */
#define BLOCK_OUTPUTS 4
#define BLOCK_VECTORS 3

/* Kernels for all output channels, and the lines of the values they are applied to. */
typedef struct {
    const float *weights, *biases; /* biases may be NULL */
    int64_t channels, rows, row;   /* output channels; lines of a kernel, and values in one */
    int64_t next_channel, next_row;
    int64_t line;                  /* floats from one line of the input to the next */
    int relu;
} Kernels;

INLINE void kernel_sums(const int outputs, const int positions, const Kernels *k, int64_t o,
                        const float *const *at, float *const *out)
{
    const float *weights = k->weights + o * k->next_channel;
    vec sum[12];
#pragma GCC unroll 12
    for (int c = 0; c < outputs; c++)
#pragma GCC unroll 4
        for (int p = 0; p < positions; p++)
            sum[p * outputs + c] = all(k->biases ? k->biases[o + c] : 0);
    for (int64_t y = 0; y < k->rows; y++) {
        const float *w = weights + y * k->next_row;
        const float *from[4];
        for (int p = 0; p < positions; p++) from[p] = at[p] + y * k->line;
        for (int64_t j = 0; j < k->row; j++) {
            vec x[4];
#pragma GCC unroll 4
            for (int p = 0; p < positions; p++) x[p] = load(from[p] + j * LANES);
#pragma GCC unroll 12
            for (int c = 0; c < outputs; c++) {
                const vec weight = all(w[c * k->next_channel + j]);
#pragma GCC unroll 4
                for (int p = 0; p < positions; p++) sum[p * outputs + c] += x[p] * weight;
            }
        }
    }
#pragma GCC unroll 4
    for (int p = 0; p < positions; p++)
#pragma GCC unroll 12
        for (int c = 0; c < outputs; c++) {
            const vec value = sum[p * outputs + c];
            store(out[p] + (o + c) * LANES, k->relu ? larger(all(0), value) : value);
        }
}

/* A separate function for each block: inlined together they would spill registers. */
#define DEFINE_SUMS(OUTPUTS, POSITIONS)                                                          \
    static __attribute__((noinline)) void sums_##OUTPUTS##_##POSITIONS(                          \
        const Kernels *k, int64_t o, const float *const *at, float *const *out)                  \
    {                                                                                            \
        kernel_sums(OUTPUTS, POSITIONS, k, o, at, out);                                          \
    }
DEFINE_SUMS(3, 4)
DEFINE_SUMS(2, 4)
DEFINE_SUMS(1, 4)
DEFINE_SUMS(12, 1)
DEFINE_SUMS(4, 1)
DEFINE_SUMS(1, 1)

/* All channels at up to four positions. */
static void channels_at(const Kernels *k, const float **at, float **out, int64_t count)
{
    int64_t o = 0;
    if (count == 1) {
        for (; o + 12 <= k->channels; o += 12) sums_12_1(k, o, at, out);
        for (; o + 4 <= k->channels; o += 4) sums_4_1(k, o, at, out);
        for (; o < k->channels; o++) sums_1_1(k, o, at, out);
        return;
    }
    /* What is computed beyond the last position is written first, and overwritten by the first. */
    for (int64_t p = count; p < WINDOW; p++) {
        at[p] = at[0];
        out[p] = out[0];
    }
    for (; o + 3 <= k->channels; o += 3) sums_3_4(k, o, at, out);
    if (k->channels - o == 2) sums_2_4(k, o, at, out);
    if (k->channels - o == 1) sums_1_4(k, o, at, out);
}

static void dense_forward(const Network *n, const Step *s)
{
    const Kernels k = {.weights = n->packed + s->weights,
                       .biases = n->packed + s->biases,
                       .channels = s->out.channels,
                       .rows = s->is.kernel[0],
                       .row = s->row,
                       .next_channel = s->is.kernel[0] * s->padded_row,
                       .next_row = s->padded_row,
                       .line = padded_width(&s->in) * s->in.channels * LANES,
                       .relu = s->is.relu};
    const int64_t width = s->out.width, positions = s->out.height * width;
    for (int64_t first = 0; first < positions; first += WINDOW) {
        const int64_t left = positions - first, count = left < WINDOW ? left : WINDOW;
        const float *at[WINDOW];
        float *out[WINDOW];
        for (int64_t p = 0; p < count; p++) {
            const int64_t y = (first + p) / width, x = (first + p) % width;
            at[p] = s->in.value + input_of(s, y, x) * LANES;
            out[p] = s->out.value + place_of(&s->out, y, x) * LANES;
        }
        channels_at(&k, at, out, count);
    }
}

/* The output positions that one side's inputs at `place`, `place` + stride, … are part of. */
typedef struct {
    int64_t taps, last;            /* how many, and the kernel place of the first of them */
    int64_t first;                 /* the first output position, which may lie outside */
    int64_t count;                 /* inputs */
} Side;

static Side side_of(const Step *s, int axis, int64_t place)
{
    const int64_t stride = s->is.stride[axis], kernel = s->is.kernel[axis];
    const int64_t size = axis ? s->in.width : s->in.height;
    const int64_t offset = place + s->is.padding[axis];
    Side side = {.count = place < size ? (size - place + stride - 1) / stride : 0};
    if (offset % stride >= kernel) return side;
    side.taps = (kernel - 1 - offset % stride) / stride + 1;
    side.last = offset % stride + (side.taps - 1) * stride;
    side.first = offset / stride - side.taps + 1;
    return side;
}

/* How wide a border of zeros the gradient of a convolution's output needs on one side. */
static int64_t gradient_border(const Step *s, int axis)
{
    const int64_t size = axis ? s->out.width : s->out.height;
    int64_t border = 0;
    for (int64_t place = 0; place < s->is.stride[axis]; place++) {
        const Side side = side_of(s, axis, place);
        if (side.taps == 0 || side.count == 0) continue;
        const int64_t beyond = side.first + side.count + side.taps - 1 - size;
        if (-side.first > border) border = -side.first;
        if (beyond > border) border = beyond;
    }
    return border;
}

/* Bring the kernels of one place within the stride to (input channel, row, column x output). */
static void flip_kernels(const Network *n, const Step *s, const Side *down, const Side *right)
{
    const int64_t inputs = s->in.channels, outputs = s->out.channels;
    const int64_t next = s->is.kernel[0] * s->padded_row;
    const int64_t size = down->taps * right->taps * outputs;
    for (int64_t y = 0; y < down->taps; y++)
        for (int64_t x = 0; x < right->taps; x++) {
            const int64_t ky = down->last - y * s->is.stride[0];
            const int64_t kx = right->last - x * s->is.stride[1];
            const float *from = n->packed + s->weights + ky * s->padded_row + kx * inputs;
            float *to = s->flipped + (y * right->taps + x) * outputs;
            int64_t o = 0;
            for (; o + LANES <= outputs; o += LANES) {
                int64_t c = 0;
                for (; c + LANES <= inputs; c += LANES) {
                    vec row[LANES], column[LANES];
                    for (int i = 0; i < LANES; i++) row[i] = load(from + (o + i) * next + c);
                    transpose(row, column);
                    for (int i = 0; i < LANES; i++) store(to + (c + i) * size + o, column[i]);
                }
                for (; c < inputs; c++)
                    for (int i = 0; i < LANES; i++)
                        to[c * size + o + i] = from[(o + i) * next + c];
            }
            for (; o < outputs; o++)
                for (int64_t c = 0; c < inputs; c++) to[c * size + o] = from[o * next + c];
        }
}

/* The gradient of the output within a border of zeros. */
static Tensor bordered_gradient(Network *n, const Step *s)
{
    Tensor wide = s->out;
    wide.pad_height = gradient_border(s, 0);
    wide.pad_width = gradient_border(s, 1);
    wide.gradient = n->bordered;
    const int64_t count = s->out.width * s->out.channels * LANES;
    memset(wide.gradient, 0, sizeof(float) * (size_t)(num_values(&wide) * LANES));
    for (int64_t y = 0; y < s->out.height; y++)
        memcpy(wide.gradient + place_of(&wide, y, 0) * LANES,
               s->out.gradient + place_of(&s->out, y, 0) * LANES, sizeof(float) * (size_t)count);
    return wide;
}

static void dense_input_gradient(Network *n, const Step *s)
{
    const Tensor wide = bordered_gradient(n, s);
    const int64_t outputs = s->out.channels;
    memset(s->in.gradient, 0, sizeof(float) * (size_t)(num_values(&s->in) * LANES));
    for (int64_t py = 0; py < s->is.stride[0]; py++)
        for (int64_t px = 0; px < s->is.stride[1]; px++) {
            const Side down = side_of(s, 0, py), right = side_of(s, 1, px);
            const int64_t positions = down.count * right.count;
            if (positions == 0 || down.taps * right.taps == 0) continue;
            flip_kernels(n, s, &down, &right);
            const Kernels k = {.weights = s->flipped,
                               .channels = s->in.channels,
                               .rows = down.taps,
                               .row = right.taps * outputs,
                               .next_channel = down.taps * right.taps * outputs,
                               .next_row = right.taps * outputs,
                               .line = padded_width(&wide) * outputs * LANES};
            for (int64_t first = 0; first < positions; first += WINDOW) {
                const int64_t left = positions - first, count = left < WINDOW ? left : WINDOW;
                const float *at[WINDOW];
                float *out[WINDOW];
                for (int64_t p = 0; p < count; p++) {
                    const int64_t y = (first + p) / right.count, x = (first + p) % right.count;
                    at[p] = wide.gradient +
                            place_of(&wide, down.first + y, right.first + x) * LANES;
                    out[p] = s->in.gradient + LANES * place_of(&s->in, py + y * s->is.stride[0],
                                                               px + x * s->is.stride[1]);
                }
                channels_at(&k, at, out, count);
            }
        }
}

/* Where the inputs and the gradients of some sample positions are. */
typedef struct {
    const float *in[ENTRIES], *gradient[ENTRIES];
    int64_t count;
} Entries;

INLINE void add_products(const int outputs, const int width, const Entries *e, int64_t offset,
                         int64_t output, float *to, int64_t next)
{
    vec sum[BLOCK_OUTPUTS * BLOCK_VECTORS];
#pragma GCC unroll 4
    for (int o = 0; o < outputs; o++)
#pragma GCC unroll 3
        for (int v = 0; v < width; v++) sum[o * width + v] = load(to + o * next + v * LANES);
    for (int64_t i = 0; i < e->count; i++) {
        const float *in = e->in[i] + offset, *gradient = e->gradient[i] + output;
        vec x[BLOCK_VECTORS];
#pragma GCC unroll 3
        for (int v = 0; v < width; v++) x[v] = load(in + v * LANES);
#pragma GCC unroll 4
        for (int o = 0; o < outputs; o++) {
            const vec g = all(gradient[o]);
#pragma GCC unroll 3
            for (int v = 0; v < width; v++) sum[o * width + v] += g * x[v];
        }
    }
#pragma GCC unroll 4
    for (int o = 0; o < outputs; o++)
#pragma GCC unroll 3
        for (int v = 0; v < width; v++) store(to + o * next + v * LANES, sum[o * width + v]);
}

typedef void (*Products)(const Entries *e, int64_t offset, int64_t output, float *to, int64_t next);
#define DEFINE_ADD(OUTPUTS, WIDTH)                                                               \
    static __attribute__((noinline)) void add_##OUTPUTS##_##WIDTH(                               \
        const Entries *e, int64_t offset, int64_t output, float *to, int64_t next)               \
    {                                                                                            \
        add_products(OUTPUTS, WIDTH, e, offset, output, to, next);                               \
    }
#define FOR_ALL_BLOCKS(DO)                                                                       \
    DO(1, 1) DO(1, 2) DO(1, 3) DO(2, 1) DO(2, 2) DO(2, 3) DO(3, 1) DO(3, 2) DO(3, 3)             \
    DO(4, 1) DO(4, 2) DO(4, 3)
FOR_ALL_BLOCKS(DEFINE_ADD)
#define NAME_ADD(OUTPUTS, WIDTH) [OUTPUTS][WIDTH] = add_##OUTPUTS##_##WIDTH,
static const Products PRODUCTS[BLOCK_OUTPUTS + 1][BLOCK_VECTORS + 1] = {FOR_ALL_BLOCKS(NAME_ADD)};

static void add_entries(Network *n, const Step *s, const Entries *e)
{
    const int64_t next = s->is.kernel[0] * s->padded_row, vectors = s->padded_row / LANES;
    const int64_t line = padded_width(&s->in) * s->in.channels;
    for (int64_t o = 0; o < s->out.channels; o += BLOCK_OUTPUTS) {
        const int64_t outputs = s->out.channels - o < BLOCK_OUTPUTS ? s->out.channels - o
                                                                    : BLOCK_OUTPUTS;
        for (int64_t y = 0; y < s->is.kernel[0]; y++)
            for (int64_t v = 0; v < vectors; v += BLOCK_VECTORS) {
                const int64_t width = vectors - v < BLOCK_VECTORS ? vectors - v : BLOCK_VECTORS;
                PRODUCTS[outputs][width](
                    e, y * line + v * LANES, o,
                    n->gradient + s->weights + o * next + y * s->padded_row + v * LANES, next);
            }
    }
}

static void dense_bias_gradient(Network *n, const Step *s)
{
    for (int64_t o = 0; o < s->out.channels; o++) {
        vec sum = all(0);
        for (int64_t y = 0; y < s->out.height; y++) {
            const float *from = s->out.gradient + (place_of(&s->out, y, 0) + o) * LANES;
            for (int64_t x = 0; x < s->out.width; x++)
                sum += load(from + x * s->out.channels * LANES);
        }
        for (int b = 0; b < LANES; b++) n->gradient[s->biases + o] += sum[b];
    }
}

static void dense_weight_gradient(Network *n, const Step *s, int64_t num_samples)
{
    const int64_t in_size = rounded_up(num_values(&s->in));
    const int64_t out_size = rounded_up(num_values(&s->out));
    Entries e;
    e.count = 0;
    to_samples(s->in.value, 1, s->inputs, in_size, in_size);
    to_samples(s->out.gradient, 1, n->gradients, out_size, out_size);
    for (int64_t b = 0; b < num_samples; b++)
        for (int64_t y = 0; y < s->out.height; y++)
            for (int64_t x = 0; x < s->out.width; x++) {
                e.in[e.count] = s->inputs + b * in_size + input_of(s, y, x);
                e.gradient[e.count++] = n->gradients + b * out_size + place_of(&s->out, y, x);
                if (e.count < ENTRIES) continue;
                add_entries(n, s, &e);
                e.count = 0;
            }
    if (e.count) add_entries(n, s, &e);
    clear_padding(n, s);
    if (s->is.bias >= 0) dense_bias_gradient(n, s);
}

#endif
