/* libcuda.so.1 of the simulated driver: the part of the CUDA driver API that programs use to list GPUs.
 *
 * No kernel runs: a context, the first step to a kernel, is rejected as not supported, and later calls are absent.
 * Numbers and names are those of the CUDA driver API, https://docs.nvidia.com/cuda/cuda-driver-api/ (read 2026-11-21).
 * No function here calls another exported function: TensorFlow exports functions with the same names.
 */
#include "machine.h"

typedef int CUresult;
typedef int CUdevice;

enum {
  SUCCESS = 0, INVALID_VALUE = 1, NOT_INITIALIZED = 3, NO_DEVICE = 100, INVALID_DEVICE = 101, NOT_SUPPORTED = 801,
};

typedef struct { int gpu, mig; } Device; /* mig: number of a MIG device, -1 for a whole GPU */

static Device devices[MOST_GPUS]; /* the visible devices, in CUDA's order */
static int device_count, initialised;

#define WHOLE_GPU -1
#define NEEDS_INIT                              \
  do {                                          \
    if (!initialised) return NOT_INITIALIZED;   \
  } while (0)
#define NEEDS_DEVICE(ordinal)                                             \
  do {                                                                    \
    NEEDS_INIT;                                                           \
    if ((ordinal) < 0 || (ordinal) >= device_count) return INVALID_DEVICE; \
  } while (0)

/* All GPUs in the order in which CUDA numbers them: fastest first, unless CUDA_DEVICE_ORDER is PCI_BUS_ID. */
static void order_gpus(int *order) {
  const char *wanted = getenv("CUDA_DEVICE_ORDER");
  int by_bus = wanted && !strcmp(wanted, "PCI_BUS_ID");
  for (int gpu = 0; gpu < gpu_count; gpu++) {
    int place = gpu;
    while (!by_bus && place > 0 && whole(order[place - 1], "multiprocessors", 0) < whole(gpu, "multiprocessors", 0)) {
      order[place] = order[place - 1];
      place--;
    }
    order[place] = gpu;
  }
}

/* The device that a GPU provides to CUDA: itself, its first MIG device, or nothing if MIG is on and has no device. */
static int usable(int gpu, Device *device) {
  device->gpu = gpu;
  device->mig = WHOLE_GPU;
  if (whole(gpu, "mig_mode", 0) != 1) return 1;
  device->mig = 0;
  return mig_device_count(gpu) > 0;
}

/* The only GPU or MIG device whose UUID begins with that text ("GPU-1a2b"); 0 if there is none, or more than one. */
static int by_uuid(const char *start, size_t length, Device *device) {
  int found = 0;
  for (int gpu = 0; gpu < gpu_count; gpu++) {
    const char *uuid = text(gpu, "uuid");
    if (uuid && !strncmp(uuid, start, length)) found += usable(gpu, device);
    for (int mig = 0; mig < mig_device_count(gpu); mig++) {
      uuid = listed(gpu, "mig_devices", mig, "uuid");
      if (!uuid || strncmp(uuid, start, length)) continue;
      device->gpu = gpu;
      device->mig = mig;
      found++;
    }
  }
  return found == 1;
}

/* The device that an entry of CUDA_VISIBLE_DEVICES names: an index, or the beginning of a UUID. Moves past the entry.
 * The first entry determines which of the two forms all entries have. */
static int read_entry(char **entry, const int *order, Device *device) {
  const char *first = getenv("CUDA_VISIBLE_DEVICES");
  char *start = *entry + strspn(*entry, " \t"), *end;
  size_t length = strcspn(start, ",");
  *entry = start + length;
  if (!strncmp(first, "GPU-", 4) || !strncmp(first, "MIG-", 4))
    return !strncmp(start, first, 4) && by_uuid(start, length, device);
  long index = strtol(start, &end, 10);
  return end != start && index >= 0 && index < gpu_count && usable(order[index], device);
}

static int is_listed(Device device) {
  for (int place = 0; place < device_count; place++)
    if (devices[place].gpu == device.gpu && devices[place].mig == device.mig) return 1;
  return 0;
}

/* CUDA provides a process with either whole GPUs or one MIG device, and with no whole GPU where it finds a MIG device:
 * https://docs.nvidia.com/datacenter/tesla/mig-user-guide/#cuda-device-enumeration */
static void list_device(Device device) {
  if (device_count && devices[0].mig != WHOLE_GPU) return;
  if (device.mig != WHOLE_GPU) device_count = 0;
  devices[device_count++] = device;
}

/* CUDA_VISIBLE_DEVICES is read up to the first entry that names no device; a device that is named twice hides all. */
static void list_devices(void) {
  int order[MOST_GPUS];
  char *entry = getenv("CUDA_VISIBLE_DEVICES");
  Device device;
  order_gpus(order);
  device_count = 0;
  for (int place = 0; !entry && place < gpu_count; place++)
    if (usable(order[place], &device)) list_device(device);
  while (entry && device_count < MOST_GPUS && read_entry(&entry, order, &device)) {
    if (is_listed(device)) {
      device_count = 0;
      return;
    }
    list_device(device);
    if (!*entry++) return;
  }
}

ENTRY CUresult cuInit(unsigned flags) {
  FAULT(NO_GPU);
  if (flags) return INVALID_VALUE;
  list_devices();
  if (!device_count) return NO_DEVICE;
  initialised = 1;
  return SUCCESS;
}

ENTRY CUresult cuDriverGetVersion(int *version) {
  FAULT(NO_GPU);
  *version = cuda_version();
  return SUCCESS;
}

ENTRY CUresult cuDeviceGetCount(int *count) {
  NEEDS_INIT;
  FAULT(NO_GPU);
  *count = device_count;
  return SUCCESS;
}

ENTRY CUresult cuDeviceGet(CUdevice *device, int ordinal) {
  NEEDS_DEVICE(ordinal);
  FAULT(devices[ordinal].gpu);
  *device = ordinal;
  return SUCCESS;
}

/* A MIG device is named after its GPU and profile: "NVIDIA A100-SXM4-40GB MIG 1g.5gb". */
ENTRY CUresult cuDeviceGetName(char *name, int length, CUdevice device) {
  NEEDS_DEVICE(device);
  FAULT(devices[device].gpu);
  const char *own = text(devices[device].gpu, "name");
  const char *profile = listed(devices[device].gpu, "mig_devices", devices[device].mig, "profile");
  snprintf(name, length, "%s%s%s", own ? own : "", profile ? " MIG " : "", profile ? profile : "");
  return SUCCESS;
}

static long long of_device(CUdevice device, const char *name) {
  Device known = devices[device];
  return known.mig == WHOLE_GPU ? whole(known.gpu, name, 0) : listed_number(known.gpu, "mig_devices", known.mig, name, 0);
}

static CUresult total_memory(size_t *bytes, CUdevice device, const char *call) {
  NEEDS_DEVICE(device);
  int code = fault(call, devices[device].gpu);
  if (!code) *bytes = (size_t)of_device(device, "memory_bytes");
  return code;
}

ENTRY CUresult cuDeviceTotalMem_v2(size_t *bytes, CUdevice device) { return total_memory(bytes, device, __func__); }
ENTRY CUresult cuDeviceTotalMem(size_t *bytes, CUdevice device) { return total_memory(bytes, device, __func__); }

ENTRY CUresult cuDeviceGetPCIBusId(char *id, int length, CUdevice device) {
  unsigned domain, bus, slot;
  NEEDS_DEVICE(device);
  FAULT(devices[device].gpu);
  pci_address(devices[device].gpu, &domain, &bus, &slot);
  snprintf(id, length, "%04x:%02x:%02x.0", domain, bus, slot);
  return SUCCESS;
}

ENTRY CUresult cuDeviceGetByPCIBusId(CUdevice *device, const char *id) {
  NEEDS_INIT;
  FAULT(NO_GPU);
  int gpu = gpu_at(id);
  for (int place = 0; place < device_count; place++)
    if (devices[place].gpu == gpu) return *device = place, SUCCESS;
  return INVALID_DEVICE;
}

/* The sixteen bytes of a UUID, from the digits after "GPU-" or "MIG-". */
static CUresult uuid_bytes(unsigned char *bytes, CUdevice device, const char *call) {
  NEEDS_DEVICE(device);
  Device known = devices[device];
  int code = fault(call, known.gpu), filled = 0;
  if (code) return code;
  const char *uuid = known.mig == WHOLE_GPU ? text(known.gpu, "uuid") : listed(known.gpu, "mig_devices", known.mig, "uuid");
  memset(bytes, 0, 16);
  for (const char *digit = uuid ? uuid + strcspn(uuid, "-") : ""; *digit && filled < 32; digit++) {
    unsigned nibble;
    if (sscanf(digit, "%1x", &nibble) == 1 && *digit != '-') bytes[filled / 2] |= nibble << (filled % 2 ? 0 : 4), filled++;
  }
  return SUCCESS;
}

ENTRY CUresult cuDeviceGetUuid(unsigned char *uuid, CUdevice device) { return uuid_bytes(uuid, device, __func__); }
ENTRY CUresult cuDeviceGetUuid_v2(unsigned char *uuid, CUdevice device) { return uuid_bytes(uuid, device, __func__); }

/* Per multiprocessor and block, by compute capability: CUDA C++ programming guide, "Technical Specifications per
 * Compute Capability", https://docs.nvidia.com/cuda/cuda-c-programming-guide/#features-and-technical-specifications */
static const struct { int capability, threads, blocks, shared_kib, shared_per_block_kib; } limits[] = {
    {30, 2048, 16, 48, 48},    {37, 2048, 16, 112, 48},  {50, 2048, 32, 64, 48},    {52, 2048, 32, 96, 48},
    {60, 2048, 32, 64, 48},    {61, 2048, 32, 96, 48},   {70, 2048, 32, 96, 96},    {75, 1024, 16, 64, 64},
    {80, 2048, 32, 164, 163},  {86, 1536, 16, 100, 99},  {87, 1536, 16, 164, 163},  {89, 1536, 24, 100, 99},
    {90, 2048, 32, 228, 227},  {100, 2048, 32, 228, 227}, {120, 1536, 24, 100, 99},
};

static int compute_mode(int gpu) {
  const char *mode = text(gpu, "compute_mode");
  return !mode ? 0 : !strcmp(mode, "prohibited") ? 2 : !strcmp(mode, "exclusive_process") ? 3 : 0;
}

/* Numbers of CUdevice_attribute. Values without a key are those of an average GPU: no program is known to depend on them. */
ENTRY CUresult cuDeviceGetAttribute(int *value, int attribute, CUdevice device) {
  NEEDS_DEVICE(device);
  int gpu = devices[device].gpu, major, minor, row = 0, last = sizeof limits / sizeof *limits - 1;
  unsigned domain, bus, slot;
  FAULT(gpu);
  capability(gpu, &major, &minor);
  pci_address(gpu, &domain, &bus, &slot);
  while (row < last && limits[row + 1].capability <= major * 10 + minor) row++;
  switch (attribute) {
    case 1: case 2: case 3: *value = 1024; break;                      /* MAX_THREADS_PER_BLOCK, MAX_BLOCK_DIM_X, _Y */
    case 4: *value = 64; break;                                        /* MAX_BLOCK_DIM_Z */
    case 5: *value = 2147483647; break;                                /* MAX_GRID_DIM_X */
    case 6: case 7: *value = 65535; break;                             /* MAX_GRID_DIM_Y, _Z */
    case 8: *value = 48 << 10; break;                                  /* MAX_SHARED_MEMORY_PER_BLOCK */
    case 9: *value = 64 << 10; break;                                  /* TOTAL_CONSTANT_MEMORY */
    case 10: *value = 32; break;                                       /* WARP_SIZE */
    case 12: case 82: *value = 65536; break;                           /* MAX_REGISTERS_PER_BLOCK, _MULTIPROCESSOR */
    case 13: *value = (int)whole(gpu, "clocks_mhz.max_sm", 1500) * 1000; break;      /* CLOCK_RATE, kHz */
    case 16: *value = (int)of_device(device, "multiprocessors"); break;              /* MULTIPROCESSOR_COUNT */
    case 19: case 31: case 41: *value = 1; break;    /* CAN_MAP_HOST_MEMORY, CONCURRENT_KERNELS, UNIFIED_ADDRESSING */
    case 20: *value = compute_mode(gpu); break;                        /* COMPUTE_MODE */
    case 32: *value = whole(gpu, "ecc.mode", 0) == 1; break;           /* ECC_ENABLED */
    case 33: *value = (int)bus; break;                                 /* PCI_BUS_ID */
    case 34: *value = (int)slot; break;                                /* PCI_DEVICE_ID */
    case 36: *value = (int)whole(gpu, "clocks_mhz.max_memory", 5000) * 1000; break;  /* MEMORY_CLOCK_RATE, kHz */
    case 37: *value = 384; break;                                      /* GLOBAL_MEMORY_BUS_WIDTH, bits */
    case 38: *value = 6 << 20; break;                                  /* L2_CACHE_SIZE */
    case 39: *value = limits[row].threads; break;                      /* MAX_THREADS_PER_MULTIPROCESSOR */
    case 40: *value = 2; break;                                        /* ASYNC_ENGINE_COUNT */
    case 50: *value = (int)domain; break;                              /* PCI_DOMAIN_ID */
    case 75: *value = major; break;                                    /* COMPUTE_CAPABILITY_MAJOR */
    case 76: *value = minor; break;                                    /* COMPUTE_CAPABILITY_MINOR */
    case 81: *value = limits[row].shared_kib << 10; break;             /* MAX_SHARED_MEMORY_PER_MULTIPROCESSOR */
    case 97: *value = limits[row].shared_per_block_kib << 10; break;   /* MAX_SHARED_MEMORY_PER_BLOCK_OPTIN */
    case 106: *value = limits[row].blocks; break;                      /* MAX_BLOCKS_PER_MULTIPROCESSOR */
    default: *value = 0;
  }
  return SUCCESS;
}

ENTRY CUresult cuDeviceComputeCapability(int *major, int *minor, CUdevice device) {
  NEEDS_DEVICE(device);
  FAULT(devices[device].gpu);
  capability(devices[device].gpu, major, minor);
  return SUCCESS;
}

ENTRY CUresult cuDevicePrimaryCtxGetState(CUdevice device, unsigned *flags, int *active) {
  NEEDS_DEVICE(device);
  FAULT(devices[device].gpu);
  *flags = 0;
  *active = 0;
  return SUCCESS;
}

static CUresult set_flags(CUdevice device, const char *call) {
  NEEDS_DEVICE(device);
  return fault(call, devices[device].gpu);
}

ENTRY CUresult cuDevicePrimaryCtxSetFlags_v2(CUdevice device, unsigned flags) { return (void)flags, set_flags(device, __func__); }
ENTRY CUresult cuDevicePrimaryCtxSetFlags(CUdevice device, unsigned flags) { return (void)flags, set_flags(device, __func__); }

/* A rehearsal ends here: everything that runs kernels begins with a context. */
ENTRY CUresult cuDevicePrimaryCtxRetain(void **context, CUdevice device) {
  NEEDS_DEVICE(device);
  FAULT(devices[device].gpu);
  *context = NULL;
  return NOT_SUPPORTED;
}

ENTRY CUresult cuCtxGetCurrent(void **context) {
  NEEDS_INIT;
  FAULT(NO_GPU);
  *context = NULL;
  return SUCCESS;
}

/* Names and descriptions as the driver returns them. */
static const struct { int code; const char *name, *words; } results[] = {
    {0, "CUDA_SUCCESS", "no error"},
    {1, "CUDA_ERROR_INVALID_VALUE", "invalid argument"},
    {2, "CUDA_ERROR_OUT_OF_MEMORY", "out of memory"},
    {3, "CUDA_ERROR_NOT_INITIALIZED", "initialization error"},
    {34, "CUDA_ERROR_STUB_LIBRARY", "CUDA driver is a stub library"},
    {46, "CUDA_ERROR_DEVICE_UNAVAILABLE", "CUDA-capable device(s) is/are busy or unavailable"},
    {100, "CUDA_ERROR_NO_DEVICE", "no CUDA-capable device is detected"},
    {101, "CUDA_ERROR_INVALID_DEVICE", "invalid device ordinal"},
    {200, "CUDA_ERROR_INVALID_IMAGE", "device kernel image is invalid"},
    {201, "CUDA_ERROR_INVALID_CONTEXT", "invalid device context"},
    {209, "CUDA_ERROR_NO_BINARY_FOR_GPU", "no kernel image is available for execution on the device"},
    {214, "CUDA_ERROR_ECC_UNCORRECTABLE", "uncorrectable ECC error encountered"},
    {218, "CUDA_ERROR_INVALID_PTX", "a PTX JIT compilation failed"},
    {222, "CUDA_ERROR_UNSUPPORTED_PTX_VERSION", "the provided PTX was compiled with an unsupported toolchain."},
    {303, "CUDA_ERROR_SHARED_OBJECT_INIT_FAILED", "shared object initialization failed"},
    {304, "CUDA_ERROR_OPERATING_SYSTEM", "OS call failed or operation not supported on this OS"},
    {400, "CUDA_ERROR_INVALID_HANDLE", "invalid resource handle"},
    {700, "CUDA_ERROR_ILLEGAL_ADDRESS", "an illegal memory access was encountered"},
    {719, "CUDA_ERROR_LAUNCH_FAILED", "unspecified launch failure"},
    {800, "CUDA_ERROR_NOT_PERMITTED", "operation not permitted"},
    {801, "CUDA_ERROR_NOT_SUPPORTED", "operation not supported"},
    {802, "CUDA_ERROR_SYSTEM_NOT_READY", "system not yet initialized"},
    {803, "CUDA_ERROR_SYSTEM_DRIVER_MISMATCH", "system has unsupported display driver / cuda driver combination"},
    {804, "CUDA_ERROR_COMPAT_NOT_SUPPORTED_ON_DEVICE", "forward compatibility was attempted on non supported HW"},
    {999, "CUDA_ERROR_UNKNOWN", "unknown error"},
};

static CUresult describe(CUresult code, const char **name, const char **words) {
  for (size_t row = 0; row < sizeof results / sizeof *results; row++)
    if (results[row].code == code) return *name = results[row].name, *words = results[row].words, SUCCESS;
  return *name = *words = NULL, INVALID_VALUE;
}

ENTRY CUresult cuGetErrorName(CUresult code, const char **name) {
  const char *words;
  FAULT(NO_GPU);
  return describe(code, name, &words);
}

ENTRY CUresult cuGetErrorString(CUresult code, const char **words) {
  const char *name;
  FAULT(NO_GPU);
  return describe(code, &name, words);
}
