/* llama_shaped.c: decoding as small inference programs in plain C do it, to be timed beside presk's.
 *
 *   cc -Ofast -march=native -fopenmp llama_shaped.c -lm
 *   ./a.out dim hidden layers heads kv_heads vocabulary positions tokens
 *
 * It has the shape of llama2.c and was written for this comparison: rows of f32 weights as they lie in a checkpoint, a
 * loop over rows that OpenMP divides, a dot product that -Ofast may sum in any order, attention head by head over a
 * cache by position. Weights are drawn: the text means nothing, the work is the same. Prints tokens a second.
 */
#define _GNU_SOURCE
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

static int dim, hidden, layers, heads, kv_heads, vocabulary, positions;

/* Large pages, as presk asks for. */
static float *floats(size_t n)
{
    const size_t page = (size_t)1 << 21, bytes = (n * sizeof(float) + page - 1) / page * page;
    float *memory = aligned_alloc(page, bytes);
    if (memory == NULL) {
        exit(1);
    }
    madvise(memory, bytes, MADV_HUGEPAGE);
    memset(memory, 0, bytes);
    return memory;
}

static float *drawn(size_t n)
{
    static unsigned state = 1;
    float *w = floats(n);
    for (size_t i = 0; i < n; i++) {
        state = state * 1664525u + 1013904223u;
        w[i] = ((float)(state >> 8) / 8388608.0f - 1.0f) * 0.05f;
    }
    return w;
}

/* y (n) = w (n, k) x (k) */
static void product(float *y, const float *x, const float *w, int k, int n)
{
#pragma omp parallel for
    for (int i = 0; i < n; i++) {
        float sum = 0.0f;
        for (int j = 0; j < k; j++) {
            sum += w[(size_t)i * k + j] * x[j];
        }
        y[i] = sum;
    }
}

static void norm(float *y, const float *x, const float *w)
{
    float sum = 0.0f;
    for (int i = 0; i < dim; i++) {
        sum += x[i] * x[i];
    }
    const float scale = 1.0f / sqrtf(sum / dim + 1e-5f);
    for (int i = 0; i < dim; i++) {
        y[i] = w[i] * (scale * x[i]);
    }
}

static void rotate(float *x, int n, int size, int pos)
{
    for (int i = 0; i < n; i += 2) {
        const float angle = pos * powf(10000.0f, -(float)(i % size) / size), c = cosf(angle), s = sinf(angle);
        const float a = x[i], b = x[i + 1];
        x[i] = a * c - b * s;
        x[i + 1] = a * s + b * c;
    }
}

static void attention(float *out, const float *q, const float *keys, const float *values, float *scores, int pos)
{
    const int size = dim / heads, row = size * kv_heads, group = heads / kv_heads;
#pragma omp parallel for
    for (int h = 0; h < heads; h++) {
        const float *query = q + h * size;
        float *score = scores + (size_t)h * positions, most = -INFINITY, sum = 0.0f;
        for (int t = 0; t <= pos; t++) {
            const float *key = keys + (size_t)t * row + h / group * size;
            float dot = 0.0f;
            for (int i = 0; i < size; i++) {
                dot += query[i] * key[i];
            }
            score[t] = dot / sqrtf((float)size);
            most = score[t] > most ? score[t] : most;
        }
        for (int t = 0; t <= pos; t++) {
            score[t] = expf(score[t] - most);
            sum += score[t];
        }
        float *to = out + h * size;
        memset(to, 0, (size_t)size * sizeof *to);
        for (int t = 0; t <= pos; t++) {
            const float *value = values + (size_t)t * row + h / group * size, weight = score[t] / sum;
            for (int i = 0; i < size; i++) {
                to[i] += weight * value[i];
            }
        }
    }
}

int main(int argc, char **argv)
{
    if (argc != 9) {
        fprintf(stderr, "dim hidden layers heads kv_heads vocabulary positions tokens\n");
        return 1;
    }
    int *const sizes[] = {&dim, &hidden, &layers, &heads, &kv_heads, &vocabulary, &positions};
    for (int i = 0; i < 7; i++) {
        *sizes[i] = atoi(argv[i + 1]);
    }
    const int tokens = atoi(argv[8]), row = dim / heads * kv_heads;
    const size_t square = (size_t)dim * dim, narrow = (size_t)dim * row, wide = (size_t)dim * hidden;
    const float *embedding = drawn((size_t)vocabulary * dim), *last = drawn(dim);
    const float *norms = drawn((size_t)layers * 2 * dim), *wq = drawn(layers * square), *wk = drawn(layers * narrow);
    const float *wv = drawn(layers * narrow), *wo = drawn(layers * square), *w1 = drawn(layers * wide);
    const float *w2 = drawn(layers * wide), *w3 = drawn(layers * wide);
    float *keys = floats((size_t)layers * positions * row), *values = floats((size_t)layers * positions * row);
    float *x = floats(dim), *y = floats(dim), *z = floats(dim), *q = floats(dim), *a = floats(hidden), *b = floats(hidden);
    float *scores = floats((size_t)heads * positions), *logits = floats(vocabulary);
    int token = 1;
    struct timespec begin, end;
    clock_gettime(CLOCK_MONOTONIC, &begin);
    for (int pos = 0; pos < tokens && pos < positions; pos++) {
        memcpy(x, embedding + (size_t)token * dim, (size_t)dim * sizeof *x);
        for (int l = 0; l < layers; l++) {
            float *layer_keys = keys + (size_t)l * positions * row, *key = layer_keys + (size_t)pos * row;
            float *layer_values = values + (size_t)l * positions * row;
            norm(y, x, norms + (size_t)2 * l * dim);
            product(q, y, wq + l * square, dim, dim);
            product(key, y, wk + l * narrow, dim, row);
            product(layer_values + (size_t)pos * row, y, wv + l * narrow, dim, row);
            rotate(q, dim, dim / heads, pos);
            rotate(key, row, dim / heads, pos);
            attention(z, q, layer_keys, layer_values, scores, pos);
            product(y, z, wo + l * square, dim, dim);
            for (int i = 0; i < dim; i++) {
                x[i] += y[i];
            }
            norm(y, x, norms + (size_t)(2 * l + 1) * dim);
            product(a, y, w1 + l * wide, dim, hidden);
            product(b, y, w3 + l * wide, dim, hidden);
            for (int i = 0; i < hidden; i++) {
                a[i] = a[i] / (1.0f + expf(-a[i])) * b[i];
            }
            product(y, a, w2 + l * wide, hidden, dim);
            for (int i = 0; i < dim; i++) {
                x[i] += y[i];
            }
        }
        norm(x, x, last);
        product(logits, x, embedding, dim, vocabulary);
        token = 0;
        for (int i = 1; i < vocabulary; i++) {
            token = logits[i] > logits[token] ? i : token;
        }
    }
    clock_gettime(CLOCK_MONOTONIC, &end);
    printf("%.2f\n", tokens / ((double)(end.tv_sec - begin.tv_sec) + 1e-9 * (double)(end.tv_nsec - begin.tv_nsec)));
    return 0;
}
