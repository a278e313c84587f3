// A guest in C of about 100 KB, without a libc: it maps every byte of its request
// through a table and answers with a fixed text. Built by
//
//     clang --target=wasm32 -O2 -nostdlib -fno-builtin -Wl,--no-entry \
//       -Wl,--export=wt_alloc -Wl,--export=wt_call -Wl,--strip-all \
//       -Wl,--initial-memory=262144 -o small.wasm small.c
//
// with Debian's clang 14 and lld 14. The manifest is added by the benchmark.

typedef unsigned int u32;
typedef unsigned long long u64;

#define T4(x) (x) * 2654435761u ^ 1, (x) * 40503u ^ 2, (x) * 2246822519u ^ 3, (x) * 3266489917u ^ 4
#define T16(x) T4(x), T4(x + 1), T4(x + 2), T4(x + 3)
#define T64(x) T16(x), T16(x + 4), T16(x + 8), T16(x + 12)
#define T256(x) T64(x), T64(x + 16), T64(x + 32), T64(x + 48)
#define T1K(x) T256(x), T256(x + 64), T256(x + 128), T256(x + 192)
#define T4K(x) T1K(x), T1K(x + 256), T1K(x + 512), T1K(x + 768)
static const u32 table[24576] = {T4K(1u), T4K(1025u), T4K(2049u), T4K(3073u), T4K(4097u), T4K(5121u)};

static char request[65536];
static char answer[] = "{\"content\":[{\"type\":\"text\",\"text\":\"0000\"}]}";

u32 wt_alloc(u32 n) { return n <= sizeof request ? (u32)request : 0; }

u64 wt_call(u32 at, u32 n) {
  const unsigned char *p = (const unsigned char *)at;
  u32 h = 0;
  for (u32 i = 0; i < n; i++) h = h * 31 + table[(p[i] * 96 + (h & 63)) % 24576];
  for (int i = 0; i < 4; i++) answer[35 + i] = '0' + (h >> (i * 4)) % 10;
  return (u64)(u32)answer << 32 | (sizeof answer - 1);
}
