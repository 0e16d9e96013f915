typedef unsigned int u32;
typedef unsigned long long u64;

#define EACH(index, count) \
    for (u64 index = (u64)blockIdx.x * blockDim.x + threadIdx.x; index < count; index += (u64)gridDim.x * blockDim.x)

extern "C" __global__ void add_one(u32* data, u64 count) {
    EACH(index, count) data[index] += 1;
}

extern "C" __global__ void mix(u32* to, u64 count, const u32* from, u64 inputs, u64 keeps, u64 salt) {
    EACH(index, count) {
        u32 value = keeps ? to[index] : 0;
        u32 input = inputs ? from[index < inputs ? index : index % inputs] : 0;
        to[index] = value * 1664525u + input + (u32)index + (u32)salt;
    }
}

extern "C" __global__ void fold(u32* to, u64 count, const u32* from, u64 inputs) {
    EACH(index, inputs) {
        u32 input = from[index] + (u32)index * 2654435761u;
        atomicAdd(to + index % count, (input ^ input >> 16) * 2246822519u);
    }
}

extern "C" __global__ void spin(u64 ticks) {
    u64 start = wall_clock64();
    while (wall_clock64() - start < ticks) {
    }
}
