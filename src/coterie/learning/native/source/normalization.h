/* Group and layer normalisation: statistics of each sample by itself, and so of each lane. */
#ifndef COTERIE_NORMALIZATION_H
#define COTERIE_NORMALIZATION_H

#include "network.h"

INLINE float lane_sum(vec v)
{
    return ((v[0] + v[4]) + (v[1] + v[5])) + ((v[2] + v[6]) + (v[3] + v[7]));
}

/* The gradient of a normalisation's output at one place, zero where its ReLU is dead. */
INLINE vec masked(const Step *s, int64_t at)
{
    const vec g = load(s->out.gradient + at);
    return s->is.relu ? choose((ints)(load(s->out.value + at) <= all(0)), all(0), g) : g;
}

/* The values of one group of channels of each lane. */
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
