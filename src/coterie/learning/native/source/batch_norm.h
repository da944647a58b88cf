/* Batch normalisation: statistics over all samples of a batch. */
#ifndef COTERIE_BATCH_NORM_H
#define COTERIE_BATCH_NORM_H

#include "network.h"

#define FLUSHED 256                /* positions that are summed in single precision */
#define FEATURE_BLOCK 4            /* vectors of features that stay in registers */

/* A tensor as rows of features: each value is one by itself, or each channel is. */
typedef struct {
    int64_t height, width, features;
} Rows;

INLINE Rows rows_of(const Step *s)
{
    if (s->is.is_flat) return (Rows){1, 1, s->in.height * s->in.width * s->in.channels};
    return (Rows){s->in.height, s->in.width, s->in.channels};
}

/* Values of each feature, the same for all eight samples: (feature, lane). */
typedef struct {
    float *means, *scale, *shift;  /* `means`: of the gradient's formula, the third one */
    float *first, *second;         /* sums of each lane; or the first two of the formula */
} Spread;

/* One line of an image: positions of `length` values. */
typedef struct {
    Spread spread;
    const float *in, *gradient;
    float *out;
    int64_t width, length;
} Line;

typedef void (*LineStep)(const Line *l);

#include "use_narrow.h"
#include "batch_norm_steps.h"
#include "end_use.h"
#if HAS_WIDE
#include "use_wide.h"
#include "batch_norm_steps.h"
#include "end_use.h"
#define LINE_STEP(name) (has_wide ? name##_wide : name##_narrow)
#else
#define LINE_STEP(name) name##_narrow
#endif

static Spread spread_of(const Network *n, int64_t features)
{
    const int64_t apart = features * LANES;
    return (Spread){n->spread, n->spread + apart, n->spread + 2 * apart, n->spread + 3 * apart,
                    n->spread + 4 * apart};
}

static void spread_features(const float *from, int64_t features, float *to)
{
    for (int64_t f = 0; f < features; f++) store(to + f * LANES, all(from[f]));
}

/* Line `y` of one group of samples; `out` is the output, or the gradient of the input. */
static Line line_of(const Step *s, const Spread *spread, int64_t y, int is_backward)
{
    const Rows rows = rows_of(s);
    const int64_t from = place_of(&s->in, y, 0) * LANES, to = place_of(&s->out, y, 0) * LANES;
    return (Line){.spread = *spread,
                  .in = s->in.value + from,
                  .gradient = is_backward ? s->out.gradient + to : NULL,
                  .out = is_backward ? s->in.gradient + from : s->out.value + to,
                  .width = rows.width,
                  .length = rows.features * LANES};
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

/* Two sums of each feature over a batch: of the values less a mean, and of their squares; or, in
 * the backward pass, of the gradients, and of gradients times the values less the mean. */
static void sum_lines(Network *n, const Step *s, int64_t count, LineStep step, int is_backward)
{
    const Rows rows = rows_of(s);
    const int64_t features = rows.features;
    const Spread spread = spread_of(n, features);
    double *sums = n->sums, *others = n->sums + features;
    memset(spread.first, 0, sizeof(float) * (size_t)(2 * features * LANES));
    memset(sums, 0, sizeof(double) * (size_t)(2 * features));
    for (int64_t g = 0; g < num_groups_of(count); g++) {
        const Step here = step_at(s, g);
        int64_t summed = 0;
        for (int64_t y = 0; y < rows.height; y++) {
            const Line line = line_of(&here, &spread, y, is_backward);
            step(&line);
            summed += rows.width;
            if (summed < FLUSHED && y + 1 < rows.height) continue;
            flush_sums(spread.first, sums, features, lanes_used(count, g));
            flush_sums(spread.second, others, features, lanes_used(count, g));
            summed = 0;
        }
    }
}

/* out = in x scale + shift, for each feature. */
static void scale_lines(const Step *s, const Spread *spread)
{
    const LineStep step = s->is.relu ? LINE_STEP(scale_line_relu) : LINE_STEP(scale_line);
    for (int64_t y = 0; y < rows_of(s).height; y++) {
        const Line line = line_of(s, spread, y, 0);
        step(&line);
    }
}

/* Set scales and shifts from means and one by the standard deviations. */
static void set_scales(const Network *n, const Step *s, const float *means, const float *inverses)
{
    const int64_t features = rows_of(s).features;
    const Spread spread = spread_of(n, features);
    for (int64_t f = 0; f < features; f++) {
        const float scale = n->packed[s->weights + f] * inverses[f];
        const float shift = n->packed[s->biases + f] - means[f] * scale;
        store(spread.scale + f * LANES, all(scale));
        store(spread.shift + f * LANES, all(shift));
    }
}

/* In evaluation, by the running statistics. */
static void batch_norm_evaluate(const Network *n, const Step *s)
{
    const int64_t features = rows_of(s).features, apart = rounded_up(features);
    const float *means = n->packed + s->running, *variances = means + apart;
    const Spread spread = spread_of(n, features);
    float *inverses = s->statistics + apart;
    for (int64_t f = 0; f < features; f++)
        inverses[f] = 1 / sqrtf(variances[f] + s->is.epsilon);
    set_scales(n, s, means, inverses);
    scale_lines(s, &spread);
}

/* In training, by the statistics of all `count` samples; layers in training remember them. */
static void batch_norm_train(Network *n, const Step *s, int64_t count)
{
    const Rows rows = rows_of(s);
    const int64_t features = rows.features, apart = rounded_up(features);
    const double values = (double)(count * rows.height * rows.width);
    const Spread spread = spread_of(n, features);
    float *means = s->statistics, *inverses = means + apart;
    float *running = n->packed + s->running;
    /* Differences to a value of the batch: squares of large means would lose digits. */
    for (int64_t f = 0; f < features; f++)
        means[f] = s->in.value[(place_of(&s->in, 0, 0) + f) * LANES];
    spread_features(means, features, spread.means);
    sum_lines(n, s, count, LINE_STEP(sum_values), 0);
    for (int64_t f = 0; f < features; f++) {
        const double apart_mean = n->sums[f] / values;
        const double spread_sum = n->sums[features + f] - apart_mean * n->sums[f];
        const double variance =
            spread_sum > 0 || spread_sum != spread_sum ? spread_sum / values : 0;
        means[f] = (float)(means[f] + apart_mean);
        inverses[f] = (float)(1 / sqrt(variance + s->is.epsilon));
        if (s->is.layer < n->first_layer) continue;
        const float unbiased = (float)(variance * values / (values - 1));
        running[f] += s->is.momentum * (means[f] - running[f]);
        running[apart + f] += s->is.momentum * (unbiased - running[apart + f]);
    }
    set_scales(n, s, means, inverses);
    for (int64_t g = 0; g < num_groups_of(count); g++) {
        const Step here = step_at(s, g);
        scale_lines(&here, &spread);
    }
}

/* The gradients of the inputs of one group: zero in unused lanes. */
static void input_lines(const Step *s, const Spread *spread, int64_t lanes)
{
    const LineStep step = s->is.relu ? LINE_STEP(live_gradient_line) : LINE_STEP(gradient_line);
    const ints lane = {0, 1, 2, 3, 4, 5, 6, 7};
    const ints used = lane < all_ints((int32_t)lanes);
    for (int64_t y = 0; y < rows_of(s).height; y++) {
        const Line line = line_of(s, spread, y, 1);
        step(&line);
        if (lanes == LANES) continue;
        for (int64_t i = 0; i < line.width * line.length; i += LANES)
            store(line.out + i, choose(used, load(line.out + i), all(0)));
    }
}

static void batch_norm_backward(Network *n, const Step *s, int64_t count, int with_inputs)
{
    const Rows rows = rows_of(s);
    const int64_t features = rows.features, apart = rounded_up(features);
    const double values = (double)(count * rows.height * rows.width);
    const float *means = s->statistics, *inverses = means + apart;
    const Spread spread = spread_of(n, features);
    set_scales(n, s, means, inverses);
    spread_features(means, features, spread.means);
    sum_lines(n, s, count,
              s->is.relu ? LINE_STEP(sum_live_gradients) : LINE_STEP(sum_gradients), 1);
    for (int64_t f = 0; f < features; f++) {
        const double inverse = inverses[f], weight = n->packed[s->weights + f];
        const double sum = n->sums[f], scaled = n->sums[features + f] * inverse;
        if (s->is.weight >= 0) n->gradient[s->weights + f] += (float)scaled;
        if (s->is.bias >= 0) n->gradient[s->biases + f] += (float)sum;
        const double slope = -weight * inverse * inverse * scaled / values;
        const double rest = -weight * inverse * sum / values - slope * means[f];
        store(spread.first + f * LANES, all((float)(weight * inverse)));
        store(spread.second + f * LANES, all((float)slope));
        store(spread.means + f * LANES, all((float)rest));
    }
    for (int64_t g = 0; with_inputs && g < num_groups_of(count); g++) {
        const Step here = step_at(s, g);
        input_lines(&here, &spread, lanes_used(count, g));
    }
}

#endif
