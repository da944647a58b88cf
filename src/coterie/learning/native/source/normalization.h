/* Batch, group and layer normalisation.
 *
 * Batch normalisation takes its statistics over all samples of a batch; the other two take theirs
 * for each sample by itself, and so for each lane.
 */
#ifndef COTERIE_NORMALIZATION_H
#define COTERIE_NORMALIZATION_H

#include "network.h"

#define FLUSHED 256                /* positions that are summed in single precision */

/* A tensor as rows of features: each value is one by itself, or each channel is. */
typedef struct {
    int64_t height, width, features;
} Rows;

INLINE Rows rows_of(const Step *s)
{
    if (s->is.is_flat) return (Rows){1, 1, s->in.height * s->in.width * s->in.channels};
    return (Rows){s->in.height, s->in.width, s->in.channels};
}

INLINE float lane_sum(vec v)
{
    return ((v[0] + v[4]) + (v[1] + v[5])) + ((v[2] + v[6]) + (v[3] + v[7]));
}

/* Move sums of eight lanes, of which the first `lanes` count, to the sums of the whole batch. */
static void flush_sums(float *partial, double *sums, int64_t features, int64_t lanes)
{
    for (int64_t f = 0; f < features; f++) {
        double sum = 0;
        for (int64_t b = 0; b < lanes; b++) sum += (double)partial[f * LANES + b];
        sums[f] += sum;
    }
    memset(partial, 0, sizeof(float) * (size_t)(features * LANES));
}

/* The gradient of a normalisation's output at one place, zero where its ReLU is dead. */
INLINE vec masked(const Step *s, int64_t at)
{
    const vec g = load(s->out.gradient + at);
    return s->is.relu ? choose((ints)(load(s->out.value + at) <= all(0)), all(0), g) : g;
}

/* Two sums of each feature over a batch: of the values less a pivot, and of their squares; or, in
 * the backward pass, of the gradients, and of gradients times the values less the mean. */
INLINE void batch_sums(const int backward, Network *n, const Step *s, int64_t count,
                       const float *pivots)
{
    const Rows rows = rows_of(s);
    const int64_t features = rows.features;
    float *one = n->spare, *two = n->spare + features * LANES;
    double *sums = n->sums, *others = n->sums + features;
    memset(one, 0, sizeof(float) * (size_t)(2 * features * LANES));
    memset(sums, 0, sizeof(double) * (size_t)(2 * features));
    for (int64_t g = 0; g < num_groups_of(count); g++) {
        const Step here = step_at(s, g);
        int64_t summed = 0;
        for (int64_t y = 0; y < rows.height; y++) {
            int64_t from = place_of(&here.in, y, 0) * LANES, to = place_of(&here.out, y, 0) * LANES;
            for (int64_t x = 0; x < rows.width; x++)
                for (int64_t f = 0; f < features * LANES; f += LANES, from += LANES, to += LANES) {
                    const vec apart = load(here.in.value + from) - all(pivots[f / LANES]);
                    const vec first = backward ? masked(&here, to) : apart;
                    store(one + f, load(one + f) + first);
                    store(two + f, load(two + f) + first * apart);
                }
            summed += rows.width;
            if (summed < FLUSHED && y + 1 < rows.height) continue;
            flush_sums(one, sums, features, lanes_used(count, g));
            flush_sums(two, others, features, lanes_used(count, g));
            summed = 0;
        }
    }
}

/* out = in x scale + shift, for each feature. */
static void scale_features(const Step *s, const float *scale, const float *shift)
{
    const Rows rows = rows_of(s);
    for (int64_t y = 0; y < rows.height; y++) {
        const float *in = s->in.value + place_of(&s->in, y, 0) * LANES;
        float *out = s->out.value + place_of(&s->out, y, 0) * LANES;
        for (int64_t x = 0; x < rows.width; x++)
            for (int64_t f = 0; f < rows.features; f++, in += LANES, out += LANES) {
                const vec value = load(in) * all(scale[f]) + all(shift[f]);
                store(out, s->is.relu ? larger(all(0), value) : value);
            }
    }
}

/* Set scales and shifts from means and one by the standard deviations. */
static void set_scales(const Network *n, const Step *s, const float *means, const float *inverses,
                       float *scale, float *shift)
{
    const int64_t features = rows_of(s).features;
    for (int64_t f = 0; f < features; f++) {
        scale[f] = n->packed[s->weights + f] * inverses[f];
        shift[f] = n->packed[s->biases + f] - means[f] * scale[f];
    }
}

/* In evaluation, by the running statistics. */
static void batch_norm_evaluate(const Network *n, const Step *s)
{
    const int64_t features = rows_of(s).features, apart = rounded_up(features);
    const float *means = n->packed + s->running, *variances = means + apart;
    float *inverses = s->statistics + apart, *scale = inverses + apart, *shift = scale + apart;
    for (int64_t f = 0; f < features; f++)
        inverses[f] = 1 / sqrtf(variances[f] + s->is.epsilon);
    set_scales(n, s, means, inverses, scale, shift);
    scale_features(s, scale, shift);
}

/* In training, by the statistics of all `count` samples; layers in training remember them. */
static void batch_norm_train(Network *n, const Step *s, int64_t count)
{
    const Rows rows = rows_of(s);
    const int64_t features = rows.features, apart = rounded_up(features);
    const double values = (double)(count * rows.height * rows.width);
    float *means = s->statistics, *inverses = means + apart;
    float *scale = inverses + apart, *shift = scale + apart;
    float *running = n->packed + s->running;
    /* Differences to a value of the batch: squares of large means would lose digits. */
    for (int64_t f = 0; f < features; f++)
        means[f] = s->in.value[(place_of(&s->in, 0, 0) + f) * LANES];
    batch_sums(0, n, s, count, means);
    for (int64_t f = 0; f < features; f++) {
        const double apart_mean = n->sums[f] / values;
        const double spread = n->sums[features + f] - apart_mean * n->sums[f];
        const double variance = spread > 0 || spread != spread ? spread / values : 0;
        means[f] = (float)(means[f] + apart_mean);
        inverses[f] = (float)(1 / sqrt(variance + s->is.epsilon));
        if (s->is.layer < n->first_layer) continue;
        const float unbiased = (float)(variance * values / (values - 1));
        running[f] += s->is.momentum * (means[f] - running[f]);
        running[apart + f] += s->is.momentum * (unbiased - running[apart + f]);
    }
    set_scales(n, s, means, inverses, scale, shift);
    for (int64_t g = 0; g < num_groups_of(count); g++) {
        const Step here = step_at(s, g);
        scale_features(&here, scale, shift);
    }
}

/* in.gradient = masked x one + in x two + three, for each feature, and zero in unused lanes. */
static void scale_gradients(const Step *s, const float *one, const float *two, const float *three,
                            int64_t lanes)
{
    const Rows rows = rows_of(s);
    const ints lane = {0, 1, 2, 3, 4, 5, 6, 7};
    const ints used = lane < all_ints((int32_t)lanes);
    for (int64_t y = 0; y < rows.height; y++) {
        int64_t from = place_of(&s->in, y, 0) * LANES, to = place_of(&s->out, y, 0) * LANES;
        for (int64_t x = 0; x < rows.width; x++)
            for (int64_t f = 0; f < rows.features; f++, from += LANES, to += LANES) {
                const vec g = masked(s, to) * all(one[f]) +
                              (load(s->in.value + from) * all(two[f]) + all(three[f]));
                store(s->in.gradient + from, choose(used, g, all(0)));
            }
    }
}

static void batch_norm_backward(Network *n, const Step *s, int64_t count, int with_inputs)
{
    const Rows rows = rows_of(s);
    const int64_t features = rows.features, apart = rounded_up(features);
    const double values = (double)(count * rows.height * rows.width);
    const float *means = s->statistics, *inverses = means + apart;
    float *one = s->statistics + 2 * apart, *two = one + apart, *three = two + apart;
    batch_sums(1, n, s, count, means);
    for (int64_t f = 0; f < features; f++) {
        const double inverse = inverses[f], weight = n->packed[s->weights + f];
        const double sum = n->sums[f], scaled = n->sums[features + f] * inverse;
        if (s->is.weight >= 0) n->gradient[s->weights + f] += (float)scaled;
        if (s->is.bias >= 0) n->gradient[s->biases + f] += (float)sum;
        const double slope = -weight * inverse * inverse * scaled / values;
        one[f] = (float)(weight * inverse);
        two[f] = (float)slope;
        three[f] = (float)(-weight * inverse * sum / values - slope * means[f]);
    }
    for (int64_t g = 0; with_inputs && g < num_groups_of(count); g++) {
        const Step here = step_at(s, g);
        scale_gradients(&here, one, two, three, lanes_used(count, g));
    }
}

/* Group and layer normalisation: the values of one group of channels of each lane. */
typedef struct {
    int64_t first, channels;       /* of the group */
    vec mean, inverse;
} Part;

#define FOR_PART(S, P, ...)                                                                      \
    for (int64_t y = 0; y < (S)->in.height; y++)                                                 \
        for (int64_t x = 0; x < (S)->in.width; x++) {                                            \
            const int64_t from = (place_of(&(S)->in, y, x) + (P)->first) * LANES;                \
            const int64_t to = (place_of(&(S)->out, y, x) + (P)->first) * LANES;                 \
            const int64_t weight =                                                               \
                (P)->first +                                                                     \
                ((S)->is.kind == LAYER_NORM ? (y * (S)->in.width + x) * (S)->in.channels : 0);   \
            for (int64_t c = 0; c < (P)->channels; c++) __VA_ARGS__                              \
        }

static Part part_of(const Step *s, int64_t number)
{
    const int64_t parts = s->is.kind == LAYER_NORM ? 1 : s->is.count;
    Part p = {.channels = s->in.channels / parts};
    p.first = number * p.channels;
    const vec share = all(1.0f / (float)(p.channels * s->in.height * s->in.width));
    vec sum = all(0), squares = all(0);
    FOR_PART(s, &p, {
        (void)to, (void)weight;
        sum += load(s->in.value + from + c * LANES);
    })
    p.mean = sum * share;
    FOR_PART(s, &p, {
        (void)to, (void)weight;
        const vec apart = load(s->in.value + from + c * LANES) - p.mean;
        squares += apart * apart;
    })
    p.inverse = all(1) / square_root(squares * share + all(s->is.epsilon));
    return p;
}

static void group_norm_forward(const Network *n, const Step *s)
{
    const float *weights = n->packed + s->weights, *biases = n->packed + s->biases;
    for (int64_t i = 0; i < (s->is.kind == LAYER_NORM ? 1 : s->is.count); i++) {
        const Part p = part_of(s, i);
        FOR_PART(s, &p, {
            const vec apart = (load(s->in.value + from + c * LANES) - p.mean) * p.inverse;
            const vec value = apart * all(weights[weight + c]) + all(biases[weight + c]);
            store(s->out.value + to + c * LANES, s->is.relu ? larger(all(0), value) : value);
        })
    }
}

static void group_norm_backward(Network *n, const Step *s, int with_inputs)
{
    const float *weights = n->packed + s->weights;
    float *scales = n->gradient + s->weights, *shifts = n->gradient + s->biases;
    for (int64_t i = 0; i < (s->is.kind == LAYER_NORM ? 1 : s->is.count); i++) {
        const Part p = part_of(s, i);
        const vec share = all(1.0f / (float)(p.channels * s->in.height * s->in.width));
        vec sum = all(0), scaled = all(0);
        FOR_PART(s, &p, {
            const vec apart = (load(s->in.value + from + c * LANES) - p.mean) * p.inverse;
            const vec g = masked(s, to + c * LANES), weighted = g * all(weights[weight + c]);
            sum += weighted;
            scaled += weighted * apart;
            if (s->is.weight >= 0) scales[weight + c] += lane_sum(g * apart);
            if (s->is.bias >= 0) shifts[weight + c] += lane_sum(g);
        })
        sum *= share;
        scaled *= share;
        if (!with_inputs) continue;
        FOR_PART(s, &p, {
            const vec apart = (load(s->in.value + from + c * LANES) - p.mean) * p.inverse;
            const vec weighted = masked(s, to + c * LANES) * all(weights[weight + c]);
            store(s->in.gradient + from + c * LANES, (weighted - sum - apart * scaled) * p.inverse);
        })
    }
}

#endif
