/* From a list of operations to a network with its memory; sizes that do not fit are refused. */
#ifndef COTERIE_PLAN_H
#define COTERIE_PLAN_H

#include <stdlib.h>

#include "network.h"
#include "winograd.h"

#define LARGEST_SIDE (1 << 20)
#define LARGEST_TENSOR (1 << 28)   /* values of one sample's activations or of one layer */
#define LARGEST_TOTAL (1 << 29)    /* values of everything together: 2 GiB for each thread */
#define ALIGNMENT 64
#define SLACK 64                   /* vectors may be read and zeros written past the end */

static void release(Network *n)
{
    if (!n) return;
    for (int64_t i = 0; i < n->num_blocks; i++) free(n->blocks[i]);
    free(n->blocks);
    free(n->steps);
    free(n);
}

/* Zeroed memory for `count` floats or ints, with slack on both sides; NULL when it is too much. */
static void *reserve(Network *n, int64_t count)
{
    n->num_reserved += count;
    if (n->num_reserved > LARGEST_TOTAL) return NULL;
    void **blocks = realloc(n->blocks, sizeof(void *) * (size_t)(n->num_blocks + 1));
    if (!blocks) return NULL;
    n->blocks = blocks;
    const size_t bytes = sizeof(float) * (size_t)(rounded_up(count) + 2 * SLACK);
    char *block = aligned_alloc(ALIGNMENT, (bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT);
    if (!block) return NULL;
    memset(block, 0, bytes);
    n->blocks[n->num_blocks++] = block;
    return block + sizeof(float) * SLACK;
}

static int in_range(int64_t value, int64_t least) { return value >= least && value <= LARGEST_SIDE; }

/* Whether a x b x c is at most LARGEST_TENSOR, without overflow. */
static int small_product(int64_t a, int64_t b, int64_t c)
{
    int64_t ab, abc;
    return !__builtin_mul_overflow(a, b, &ab) && !__builtin_mul_overflow(ab, c, &abc) &&
           abc <= LARGEST_TENSOR;
}

static int is_sound(const Operation *o)
{
    if (o->kind < CONVOLUTION || o->kind > DROPOUT) return 0;
    if (o->kind == CONVOLUTION || o->kind == LINEAR)
        if (!in_range(o->outputs, 1) || o->weight < 0 || o->bias < -1) return 0;
    if (o->kind == CONVOLUTION || o->kind == MAX_POOL || o->kind == AVERAGE_POOL)
        for (int i = 0; i < 2; i++) {
            if (!in_range(o->kernel[i], 1) || !in_range(o->stride[i], 1) ||
                !in_range(o->padding[i], 0))
                return 0;
            /* A window that holds padding alone would have no maximum. */
            if (o->kind != CONVOLUTION && 2 * o->padding[i] > o->kernel[i]) return 0;
        }
    if (o->kind == CONVOLUTION && o->pool != 1 && o->pool != 2) return 0;
    return o->kind != DROPOUT || (o->rate >= 0 && o->rate <= 1);
}

/* How many positions a window takes along one side. */
static int64_t steps_along(const Operation *o, int64_t side, int axis)
{
    const int64_t room = side + 2 * o->padding[axis] - o->kernel[axis];
    return room < 0 ? 0 : (room / o->stride[axis] + 1) / (o->kind == CONVOLUTION ? o->pool : 1);
}

/* Set the shape of a step's output and its place among the packed parameters. */
static int shape_step(Network *n, Step *s)
{
    const Operation *o = &s->is;
    const Tensor *in = &s->in;
    s->out = *in;
    s->out.pad_height = s->out.pad_width = 0;
    if (o->kind == CONVOLUTION || o->kind == MAX_POOL || o->kind == AVERAGE_POOL) {
        s->out.height = steps_along(o, in->height, 0);
        s->out.width = steps_along(o, in->width, 1);
        if (s->out.height < 1 || s->out.width < 1) return 0;
    }
    int64_t rows = 0;
    if (o->kind == CONVOLUTION) {
        if (!small_product(o->kernel[1], in->channels, 1)) return 0;
        s->out.channels = o->outputs;
        s->row = o->kernel[1] * in->channels;
        rows = (int64_t)o->outputs * o->kernel[0];
    } else if (o->kind == LINEAR) {
        s->out.height = s->out.width = 1;
        s->out.channels = o->outputs;
        s->row = in->height * in->width * in->channels;
        rows = o->outputs;
    }
    s->padded_row = rounded_up(s->row);
    if (rows) {
        if (!small_product(rows, s->padded_row, 1)) return 0;
        s->weights = n->num_packed;
        s->biases = s->weights + rows * s->padded_row;
        s->num_weights = rows * s->padded_row + rounded_up(o->outputs);
        n->num_packed += s->num_weights;
    }
    return small_product(s->out.height, s->out.width, s->out.channels);
}

/* Give a step's output the border that the next convolution needs. */
static void pad_for(Tensor *t, const Operation *next)
{
    if (next->kind != CONVOLUTION) return;
    t->pad_height = next->padding[0];
    t->pad_width = next->padding[1];
}

static int reserve_tensor(Network *n, Tensor *t)
{
    if (!small_product(padded_height(t), padded_width(t), t->channels)) return 0;
    t->value = reserve(n, num_values(t) * LANES);
    t->gradient = reserve(n, num_values(t) * LANES);
    return t->value && t->gradient;
}

/* The memory of a convolution for its backward pass. */
static int reserve_convolution(Network *n, Step *s)
{
    const int64_t channels = s->out.channels, positions = s->out.height * s->out.width;
    const int64_t size = rounded_up(num_values(&s->in));
    /* A byte for each of eight samples; lists read up to eight positions at a time. */
    const int64_t bytes = 2 * rounded_up(positions * channels) + 2 * channels;
    s->window = reserve(n, bytes);
    s->windows = reserve(n, bytes);
    s->bases = reserve(n, rounded_up(positions));
    s->inputs = reserve(n, size * LANES);
    s->dx = reserve(n, size);
    s->kernels = reserve(n, is_winograd(s) ? TILE * channels * rounded_up(s->in.channels) : 0);
    if (!s->window || !s->windows || !s->bases || !s->inputs || !s->dx || !s->kernels) return 0;
    for (int64_t p = 0; p < positions; p++)
        s->bases[p] = (int32_t)input_of(s, p / s->out.width, p % s->out.width);
    return 1;
}

static int reserve_step(Network *n, Step *s)
{
    if (s->is.kind == CONVOLUTION) return reserve_convolution(n, s);
    if (s->is.kind != MAX_POOL && s->is.kind != DROPOUT) return 1;
    s->place = reserve(n, num_values(&s->out) * LANES);
    return s->place != NULL;
}

static int64_t most(int64_t a, int64_t b) { return a > b ? a : b; }

/* One set of scratch memory, as large as the largest step needs. */
static int reserve_scratch(Network *n)
{
    int64_t samples = 0, values = 0, inputs = 0, live = 0, list = 0, tiles = 0, products = 0;
    for (int32_t i = 0; i < n->num_steps; i++) {
        const Step *s = &n->steps[i];
        if (s->is.kind == LINEAR) samples = most(samples, s->padded_row);
        if (s->is.kind != CONVOLUTION) continue;
        const int64_t positions = s->out.height * s->out.width, channels = s->out.channels;
        if (is_winograd(s)) {
            tiles = most(tiles, TILE * WINDOW * s->in.channels);
            products = most(products, TILE * WINDOW * channels);
        }
        values = most(values, rounded_up(num_values(&s->out)));
        inputs = most(inputs, rounded_up(num_values(&s->in)));
        live = most(live, (positions + LANES) * channels);
        list = most(list, most(rounded_up(positions), rounded_up(channels)) + LANES);
    }
    n->tiles = reserve(n, tiles * LANES);
    n->products = reserve(n, products * LANES);
    n->samples = reserve(n, samples * LANES);
    n->values = reserve(n, values * LANES);
    n->gradients = reserve(n, values * LANES);
    n->sample_gradient = reserve(n, inputs * LANES);
    n->live = reserve(n, live);
    n->list_values = reserve(n, list * LANES);
    n->list_offsets = reserve(n, list * LANES);
    n->packed = reserve(n, n->num_packed);
    n->gradient = reserve(n, n->num_packed);
    n->first_moment = reserve(n, n->num_packed);
    n->second_moment = reserve(n, n->num_packed);
    return n->tiles && n->products && n->samples && n->values && n->gradients &&
           n->sample_gradient && n->live && n->list_values && n->list_offsets && n->packed &&
           n->gradient && n->first_moment && n->second_moment;
}

static int lay_out(Network *n, const Operation *operations)
{
    Tensor now = {.channels = n->input[0], .height = n->input[1], .width = n->input[2]};
    for (int32_t i = 0; i < n->num_steps; i++) {
        Step *s = &n->steps[i];
        if (!is_sound(&operations[i])) return 0;
        s->is = operations[i];
        s->in = now;
        pad_for(&s->in, &s->is);
        if (i > 0) n->steps[i - 1].out = s->in;
        if (!shape_step(n, s)) return 0;
        now = s->out;
    }
    if (!small_product(n->num_packed, 1, 1)) return 0;
    Tensor first = n->steps[0].in;
    if (!reserve_tensor(n, &first)) return 0;
    for (int32_t i = 0; i < n->num_steps; i++) {
        Step *s = &n->steps[i];
        s->in = i ? n->steps[i - 1].out : first;
        if (!reserve_tensor(n, &s->out) || !reserve_step(n, s)) return 0;
    }
    const Tensor *last = &n->steps[n->num_steps - 1].out;
    n->num_outputs = (int32_t)last->channels;
    return last->height == 1 && last->width == 1 && reserve_scratch(n) &&
           (n->loss == CROSS_ENTROPY || (n->loss == SQUARED_ERROR && n->num_outputs == 1));
}

/* Return a network ready to use, or NULL if its sizes are impossible or too large. */
static Network *plan(const Operation *operations, int32_t count, const int64_t input[3],
                     int32_t loss)
{
    if (count < 1 || count > 1024) return NULL;
    for (int i = 0; i < 3; i++)
        if (!in_range(input[i], 1)) return NULL;
    if (!small_product(input[0], input[1], input[2])) return NULL;
    Network *n = calloc(1, sizeof(Network));
    if (!n) return NULL;
    n->steps = calloc((size_t)count, sizeof(Step));
    n->num_steps = count;
    n->loss = loss;
    memcpy(n->input, input, sizeof(n->input));
    if (!n->steps || !lay_out(n, operations)) {
        release(n);
        return NULL;
    }
    return n;
}

/* Where packed row `r` begins in torch's order, from the start of the weights. Its values follow by
 * spot (kernel column, or position) and within it by channel; torch has channels outermost. */
INLINE int64_t torch_row(const Step *s, int64_t r)
{
    if (s->is.kind == LINEAR) return r * s->row;
    const int64_t output = r / s->is.kernel[0], y = r % s->is.kernel[0];
    return (output * s->in.channels * s->is.kernel[0] + y) * s->is.kernel[1];
}

/* How far the channels of one spot lie apart in torch's order. */
INLINE int64_t channels_apart(const Step *s)
{
    return s->is.kind == LINEAR ? s->row / s->in.channels
                                : (int64_t)s->is.kernel[0] * s->is.kernel[1];
}

INLINE int64_t num_rows_of(const Step *s)
{
    return s->is.kind == CONVOLUTION ? s->is.outputs * (int64_t)s->is.kernel[0] : s->is.outputs;
}

/* Bring a model from torch's order into the kernels'. */
static void pack(Network *n, const float *model)
{
    /* Padding too: a model that diverged may have left NaN there. */
    memset(n->packed, 0, sizeof(float) * (size_t)n->num_packed);
    for (int32_t i = 0; i < n->num_steps; i++) {
        const Step *s = &n->steps[i];
        if (s->num_weights == 0) continue;
        const int64_t spots = s->row / s->in.channels;
        for (int64_t r = 0; r < num_rows_of(s); r++) {
            float *to = n->packed + s->weights + r * s->padded_row;
            const float *from = model + s->is.weight + torch_row(s, r);
            const int64_t apart = channels_apart(s);
            for (int64_t spot = 0; spot < spots; spot++)
                for (int64_t c = 0; c < s->in.channels; c++)
                    to[spot * s->in.channels + c] = from[c * apart + spot];
        }
        for (int64_t o = 0; o < s->is.outputs && s->is.bias >= 0; o++)
            n->packed[s->biases + o] = model[s->is.bias + o];
    }
}

/* Bring packed values (parameters or gradients) back into torch's order. */
static void unpack(const Network *n, const float *packed, float *model)
{
    for (int32_t i = 0; i < n->num_steps; i++) {
        const Step *s = &n->steps[i];
        if (s->num_weights == 0) continue;
        const int64_t spots = s->row / s->in.channels;
        for (int64_t r = 0; r < num_rows_of(s); r++) {
            const float *from = packed + s->weights + r * s->padded_row;
            float *to = model + s->is.weight + torch_row(s, r);
            const int64_t apart = channels_apart(s);
            for (int64_t spot = 0; spot < spots; spot++)
                for (int64_t c = 0; c < s->in.channels; c++)
                    to[c * apart + spot] = from[spot * s->in.channels + c];
        }
        for (int64_t o = 0; o < s->is.outputs && s->is.bias >= 0; o++)
            model[s->is.bias + o] = packed[s->biases + o];
    }
}

#endif
