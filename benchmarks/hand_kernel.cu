// Gradient descent on the population, one trajectory a thread, written by hand: what a kernel of
// this size can reach. D, H and REAL are set where it is compiled.
#include <cuda_runtime.h>

struct Task { REAL drive[D], curvature[D][D]; };

__global__ void __launch_bounds__(128)
descend(REAL *weights, Task task, REAL rate, int steps, int count) {
    int own = blockIdx.x * blockDim.x + threadIdx.x;
    if (own >= count) return;
    REAL v[H], k[H][D], q[H][D];
    #pragma unroll
    for (int h = 0; h < H; h++) {
        v[h] = weights[own + (size_t)count * h];
        #pragma unroll
        for (int d = 0; d < D; d++) {
            k[h][d] = weights[own + (size_t)count * (H + h * D + d)];
            q[h][d] = weights[own + (size_t)count * (H + H * D + h * D + d)];
        }
    }
    for (int step = 0; step < steps; step++) {
        REAL g[D][D];
        #pragma unroll
        for (int a = 0; a < D; a++)
            #pragma unroll
            for (int b = 0; b < D; b++) {
                REAL w = 0;
                #pragma unroll
                for (int h = 0; h < H; h++) w += v[h] * k[h][a] * q[h][b];
                g[a][b] = rate * ((a == b ? task.drive[a] : REAL(0)) - task.curvature[a][b] * w);
            }
        #pragma unroll
        for (int h = 0; h < H; h++) {
            REAL on_query[D], on_key[D], gained = 0;
            #pragma unroll
            for (int a = 0; a < D; a++) {
                on_query[a] = 0;
                on_key[a] = 0;
                #pragma unroll
                for (int b = 0; b < D; b++) {
                    on_query[a] += g[a][b] * q[h][b];
                    on_key[a] += g[b][a] * k[h][b];
                }
                gained += k[h][a] * on_query[a];
            }
            REAL value = v[h];
            v[h] += gained;
            #pragma unroll
            for (int a = 0; a < D; a++) {
                k[h][a] += value * on_query[a];
                q[h][a] += value * on_key[a];
            }
        }
    }
    #pragma unroll
    for (int h = 0; h < H; h++) {
        weights[own + (size_t)count * h] = v[h];
        #pragma unroll
        for (int d = 0; d < D; d++) {
            weights[own + (size_t)count * (H + h * D + d)] = k[h][d];
            weights[own + (size_t)count * (H + H * D + h * D + d)] = q[h][d];
        }
    }
}

// Moves weights[H (1 + 2 D), count] by so many steps; the seconds of the kernel, negative where it
// failed.
extern "C" double run(REAL *weights, const REAL *drive, const REAL *curvature, double rate,
                      int steps, int count) {
    Task task;
    for (int a = 0; a < D; a++) {
        task.drive[a] = drive[a];
        for (int b = 0; b < D; b++) task.curvature[a][b] = curvature[a * D + b];
    }
    size_t bytes = sizeof(REAL) * H * (1 + 2 * D) * (size_t)count;
    REAL *device;
    if (cudaMalloc(&device, bytes) != cudaSuccess) return -1;
    cudaMemcpy(device, weights, bytes, cudaMemcpyHostToDevice);
    cudaEvent_t begin, end;
    cudaEventCreate(&begin);
    cudaEventCreate(&end);
    cudaEventRecord(begin);
    descend<<<(count + 127) / 128, 128>>>(device, task, (REAL)rate, steps, count);
    cudaEventRecord(end);
    cudaEventSynchronize(end);
    float milliseconds = 0;
    cudaEventElapsedTime(&milliseconds, begin, end);
    cudaMemcpy(weights, device, bytes, cudaMemcpyDeviceToHost);
    cudaFree(device);
    return cudaGetLastError() == cudaSuccess ? milliseconds / 1e3 : -1;
}
