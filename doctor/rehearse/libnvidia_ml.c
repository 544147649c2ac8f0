/* libnvidia-ml.so.1 of the simulated driver: the part of NVML that programs use to read the state of GPUs.
 *
 * Numbers, names and structures are those of NVML, https://docs.nvidia.com/deploy/nvml-api/ (read 2026-11-21); a
 * query without a value in the machine's file is not supported, as on a GPU that lacks the feature.
 * No function here calls another exported function: a program may export functions with the same names.
 */
#include "machine.h"

typedef int nvmlReturn_t;
typedef struct { int gpu, mig; } *nvmlDevice_t; /* mig: number of a MIG device, -1 for a whole GPU */
typedef unsigned long long u64;

enum {
  SUCCESS = 0, UNINITIALIZED = 1, INVALID_ARGUMENT = 2, NOT_SUPPORTED = 3, NOT_FOUND = 6, INSUFFICIENT_SIZE = 7,
  DRIVER_NOT_LOADED = 9, VERSION_MISMATCH = 25,
};
enum { WHOLE_GPU = -1 };

static struct { int gpu, mig; } handles[MOST_GPUS][MOST_MIG_DEVICES + 1]; /* the GPU itself comes last */
static int users; /* calls of nvmlInit without a matching nvmlShutdown so far */

/* At the start of every call about a GPU: check that the handle is valid, and apply the fault of the call. */
#define DEVICE(device)                                                                        \
  do {                                                                                        \
    if (!users) return UNINITIALIZED;                                                         \
    if ((char *)(device) < (char *)handles || (char *)(device) >= (char *)(handles + MOST_GPUS)) \
      return INVALID_ARGUMENT;                                                                \
    FAULT((device)->gpu);                                                                     \
  } while (0)
#define MACHINE                       \
  do {                                \
    if (!users) return UNINITIALIZED; \
    FAULT(NO_GPU);                    \
  } while (0)

static nvmlDevice_t handle_of(int gpu, int mig) {
  nvmlDevice_t handle = (nvmlDevice_t)&handles[gpu][mig == WHOLE_GPU ? MOST_MIG_DEVICES : mig];
  handle->gpu = gpu;
  handle->mig = mig;
  return handle;
}

static nvmlReturn_t give_text(const char *value, char *into, unsigned length) {
  if (!value) return NOT_SUPPORTED;
  if (strlen(value) >= length) return INSUFFICIENT_SIZE;
  strcpy(into, value);
  return SUCCESS;
}

static nvmlReturn_t give(int gpu, const char *name, double scale, unsigned *into) {
  double number;
  if (!has_number(gpu, name, &number)) return NOT_SUPPORTED;
  number = number * scale + 0.5;
  *into = number < 0 ? 0 : number > 4294967295.0 ? 4294967295u : (unsigned)number;
  return SUCCESS;
}

static nvmlReturn_t give_wide(int gpu, const char *name, u64 *into) {
  double number;
  if (!has_number(gpu, name, &number)) return NOT_SUPPORTED;
  *into = (u64)whole(gpu, name, 0);
  return SUCCESS;
}

/* A call that returns the number of one key, times a scale. */
#define NUMBER(call, key, scale)                                       \
  ENTRY nvmlReturn_t call(nvmlDevice_t device, unsigned *answer) {     \
    DEVICE(device);                                                    \
    return give(device->gpu, key, scale, answer);                      \
  }
#define TEXT(call, key)                                                              \
  ENTRY nvmlReturn_t call(nvmlDevice_t device, char *answer, unsigned length) {      \
    DEVICE(device);                                                                  \
    return give_text(text(device->gpu, key), answer, length);                        \
  }

static nvmlReturn_t start(const char *call) {
  int code = fault(call, NO_GPU);
  if (!code && strcmp(call, "nvmlInit")) code = fault("nvmlInit", NO_GPU); /* nvmlInitWithFlags is a variant of it */
  if (!code && !content) code = DRIVER_NOT_LOADED;
  if (!code) users++;
  return code;
}

ENTRY nvmlReturn_t nvmlInit(void) { return start(__func__); }
ENTRY nvmlReturn_t nvmlInit_v2(void) { return start(__func__); }
ENTRY nvmlReturn_t nvmlInitWithFlags(unsigned flags) { return (void)flags, start(__func__); }

ENTRY nvmlReturn_t nvmlShutdown(void) {
  MACHINE;
  users--;
  return SUCCESS;
}

ENTRY const char *nvmlErrorString(nvmlReturn_t code) {
  static const struct { int code; const char *words; } rows[] = {
      {0, "Success"}, {1, "Uninitialized"}, {2, "Invalid Argument"}, {3, "Not Supported"},
      {4, "Insufficient Permissions"}, {6, "Not Found"}, {7, "Insufficient Size"}, {8, "Insufficient External Power"},
      {9, "Driver Not Loaded"}, {10, "Timeout"}, {11, "Interrupt Request Issue"}, {12, "NVML Shared Library Not Found"},
      {13, "Function Not Found"}, {14, "Corrupted infoROM"}, {15, "GPU is lost"}, {16, "GPU requires reset"},
      {17, "GPU access blocked by the operating system"}, {18, "Driver/library version mismatch"},
      {19, "In use by another client"}, {20, "Insufficient Memory"}, {999, "Unknown Error"},
  };
  for (size_t row = 0; row < sizeof rows / sizeof *rows; row++)
    if (rows[row].code == code) return rows[row].words;
  return "Unknown Error";
}

ENTRY nvmlReturn_t nvmlSystemGetDriverVersion(char *version, unsigned length) {
  MACHINE;
  return give_text(text(NO_GPU, "driver"), version, length);
}

/* "12.550.54.15": the major version of CUDA and the driver version. */
ENTRY nvmlReturn_t nvmlSystemGetNVMLVersion(char *version, unsigned length) {
  MACHINE;
  const char *driver = text(NO_GPU, "driver");
  snprintf(version, length, "%d.%s", cuda_version() / 1000, driver ? driver : "");
  return SUCCESS;
}

static nvmlReturn_t give_cuda_version(int *version, const char *call) {
  int code = fault(call, NO_GPU);
  if (!code) *version = cuda_version();
  return code;
}

ENTRY nvmlReturn_t nvmlSystemGetCudaDriverVersion(int *version) { return give_cuda_version(version, __func__); }
ENTRY nvmlReturn_t nvmlSystemGetCudaDriverVersion_v2(int *version) { return give_cuda_version(version, __func__); }

static nvmlReturn_t give_count(unsigned *count, const char *call) {
  if (!users) return UNINITIALIZED;
  int code = fault(call, NO_GPU);
  if (!code) *count = gpu_count;
  return code;
}

ENTRY nvmlReturn_t nvmlDeviceGetCount(unsigned *count) { return give_count(count, __func__); }
ENTRY nvmlReturn_t nvmlDeviceGetCount_v2(unsigned *count) { return give_count(count, __func__); }

static nvmlReturn_t give_handle(int gpu, int mig, nvmlDevice_t *device, int lost, const char *call) {
  if (!users) return UNINITIALIZED;
  if (gpu < 0 || gpu >= gpu_count) return lost;
  int code = fault(call, gpu);
  if (!code) *device = handle_of(gpu, mig);
  return code;
}

ENTRY nvmlReturn_t nvmlDeviceGetHandleByIndex(unsigned index, nvmlDevice_t *device) {
  return give_handle((int)index, WHOLE_GPU, device, INVALID_ARGUMENT, __func__);
}
ENTRY nvmlReturn_t nvmlDeviceGetHandleByIndex_v2(unsigned index, nvmlDevice_t *device) {
  return give_handle((int)index, WHOLE_GPU, device, INVALID_ARGUMENT, __func__);
}
ENTRY nvmlReturn_t nvmlDeviceGetHandleByPciBusId(const char *id, nvmlDevice_t *device) {
  return give_handle(gpu_at(id), WHOLE_GPU, device, NOT_FOUND, __func__);
}
ENTRY nvmlReturn_t nvmlDeviceGetHandleByPciBusId_v2(const char *id, nvmlDevice_t *device) {
  return give_handle(gpu_at(id), WHOLE_GPU, device, NOT_FOUND, __func__);
}

ENTRY nvmlReturn_t nvmlDeviceGetHandleByUUID(const char *uuid, nvmlDevice_t *device) {
  for (int gpu = 0; uuid && gpu < gpu_count; gpu++) {
    const char *own = text(gpu, "uuid");
    if (own && !strcmp(own, uuid)) return give_handle(gpu, WHOLE_GPU, device, NOT_FOUND, __func__);
    for (int mig = 0; mig < mig_device_count(gpu); mig++) {
      own = listed(gpu, "mig_devices", mig, "uuid");
      if (own && !strcmp(own, uuid)) return give_handle(gpu, mig, device, NOT_FOUND, __func__);
    }
  }
  return give_handle(NO_GPU, WHOLE_GPU, device, NOT_FOUND, __func__);
}

ENTRY nvmlReturn_t nvmlDeviceGetMigMode(nvmlDevice_t device, unsigned *current, unsigned *pending) {
  DEVICE(device);
  nvmlReturn_t code = give(device->gpu, "mig_mode", 1, current);
  *pending = *current;
  give(device->gpu, "mig_pending", 1, pending);
  return code;
}

ENTRY nvmlReturn_t nvmlDeviceGetMaxMigDeviceCount(nvmlDevice_t device, unsigned *count) {
  DEVICE(device);
  *count = text(device->gpu, "mig_mode") ? 7 : 0; /* the maximum of any GPU */
  return SUCCESS;
}

ENTRY nvmlReturn_t nvmlDeviceGetMigDeviceHandleByIndex(nvmlDevice_t device, unsigned index, nvmlDevice_t *mig) {
  DEVICE(device);
  if (!text(device->gpu, "mig_mode")) return NOT_SUPPORTED;
  if ((int)index >= mig_device_count(device->gpu)) return NOT_FOUND;
  *mig = handle_of(device->gpu, (int)index);
  return SUCCESS;
}

ENTRY nvmlReturn_t nvmlDeviceIsMigDeviceHandle(nvmlDevice_t device, unsigned *answer) {
  DEVICE(device);
  *answer = device->mig != WHOLE_GPU;
  return SUCCESS;
}

ENTRY nvmlReturn_t nvmlDeviceGetDeviceHandleFromMigDeviceHandle(nvmlDevice_t mig, nvmlDevice_t *device) {
  DEVICE(mig);
  if (mig->mig == WHOLE_GPU) return INVALID_ARGUMENT;
  *device = handle_of(mig->gpu, WHOLE_GPU);
  return SUCCESS;
}

static long long of_mig(nvmlDevice_t device, const char *name, long long otherwise) {
  return listed_number(device->gpu, "mig_devices", device->mig, name, otherwise);
}

static nvmlReturn_t give_instance(nvmlDevice_t device, const char *name, unsigned *id) {
  if (device->mig == WHOLE_GPU || !listed(device->gpu, "mig_devices", device->mig, name)) return NOT_SUPPORTED;
  *id = (unsigned)of_mig(device, name, 0);
  return SUCCESS;
}

ENTRY nvmlReturn_t nvmlDeviceGetGpuInstanceId(nvmlDevice_t device, unsigned *id) {
  DEVICE(device);
  return give_instance(device, "gpu_instance", id);
}

ENTRY nvmlReturn_t nvmlDeviceGetComputeInstanceId(nvmlDevice_t device, unsigned *id) {
  DEVICE(device);
  return give_instance(device, "compute_instance", id);
}

typedef struct {
  unsigned multiprocessors, copy_engines, decoders, encoders, jpegs, ofas, gpu_slices, compute_slices;
  u64 memory_mib;
} Attributes;

ENTRY nvmlReturn_t nvmlDeviceGetAttributes_v2(nvmlDevice_t device, Attributes *answer) {
  DEVICE(device);
  if (of_mig(device, "multiprocessors", -1) < 0) return NOT_SUPPORTED;
  memset(answer, 0, sizeof *answer);
  answer->multiprocessors = (unsigned)of_mig(device, "multiprocessors", 0);
  answer->gpu_slices = answer->compute_slices = 1;
  answer->memory_mib = (u64)of_mig(device, "memory_bytes", 0) >> 20;
  return SUCCESS;
}

ENTRY nvmlReturn_t nvmlDeviceGetName(nvmlDevice_t device, char *name, unsigned length) {
  char whole_name[256];
  DEVICE(device);
  const char *own = text(device->gpu, "name"), *profile = listed(device->gpu, "mig_devices", device->mig, "profile");
  snprintf(whole_name, sizeof whole_name, "%s%s%s", own ? own : "", profile ? " MIG " : "", profile ? profile : "");
  return give_text(whole_name, name, length);
}

ENTRY nvmlReturn_t nvmlDeviceGetUUID(nvmlDevice_t device, char *uuid, unsigned length) {
  DEVICE(device);
  const char *own = device->mig == WHOLE_GPU ? text(device->gpu, "uuid")
                                             : listed(device->gpu, "mig_devices", device->mig, "uuid");
  return give_text(own, uuid, length);
}

TEXT(nvmlDeviceGetSerial, "serial")
TEXT(nvmlDeviceGetVbiosVersion, "vbios")
TEXT(nvmlDeviceGetBoardPartNumber, "part_number")

ENTRY nvmlReturn_t nvmlDeviceGetIndex(nvmlDevice_t device, unsigned *index) {
  DEVICE(device);
  *index = (unsigned)device->gpu;
  return SUCCESS;
}

ENTRY nvmlReturn_t nvmlDeviceGetMinorNumber(nvmlDevice_t device, unsigned *number) {
  DEVICE(device);
  *number = (unsigned)device->gpu;
  return SUCCESS;
}

ENTRY nvmlReturn_t nvmlDeviceGetCudaComputeCapability(nvmlDevice_t device, int *major, int *minor) {
  DEVICE(device);
  capability(device->gpu, major, minor);
  return text(device->gpu, "compute_capability") ? SUCCESS : NOT_SUPPORTED;
}

/* nvmlDeviceArchitecture_t: derived from the compute capability. */
ENTRY nvmlReturn_t nvmlDeviceGetArchitecture(nvmlDevice_t device, unsigned *architecture) {
  int major, minor;
  DEVICE(device);
  capability(device->gpu, &major, &minor);
  *architecture = major >= 10 ? 10 : major == 9 ? 9 : major == 8 ? (minor == 9 ? 8 : 7) : major == 7 ? (minor < 5 ? 5 : 6)
                  : major == 6 ? 4 : major == 5 ? 3 : 2;
  return SUCCESS;
}

typedef struct {
  char legacy_id[16];
  unsigned domain, bus, device, device_id, subsystem_id;
  char id[32];
} PciInfo;

static void write_pci_address(PciInfo *info) {
  snprintf(info->legacy_id, sizeof info->legacy_id, "%04X:%02X:%02X.0", info->domain & 0xffff, info->bus & 0xff,
           info->device & 0xff);
  snprintf(info->id, sizeof info->id, "%08X:%02X:%02X.0", info->domain, info->bus, info->device);
}

static nvmlReturn_t give_pci(nvmlDevice_t device, PciInfo *info, const char *call) {
  if (!users) return UNINITIALIZED;
  int code = fault(call, device->gpu);
  if (code) return code;
  memset(info, 0, sizeof *info);
  pci_address(device->gpu, &info->domain, &info->bus, &info->device);
  const char *id = text(device->gpu, "pci_device");
  info->device_id = (unsigned)strtoul(id ? id : "0", NULL, 16) << 16 | 0x10de; /* NVIDIA's vendor id */
  write_pci_address(info);
  return SUCCESS;
}

ENTRY nvmlReturn_t nvmlDeviceGetPciInfo(nvmlDevice_t device, PciInfo *info) { return give_pci(device, info, __func__); }
ENTRY nvmlReturn_t nvmlDeviceGetPciInfo_v2(nvmlDevice_t device, PciInfo *info) { return give_pci(device, info, __func__); }
ENTRY nvmlReturn_t nvmlDeviceGetPciInfo_v3(nvmlDevice_t device, PciInfo *info) { return give_pci(device, info, __func__); }

typedef struct { u64 total, free, used; } Memory;
typedef struct { unsigned version; u64 total, reserved, free, used; } Memory_v2;

static nvmlReturn_t read_memory(nvmlDevice_t device, u64 *total, u64 *used) {
  int is_mig = device->mig != WHOLE_GPU;
  long long known = is_mig ? of_mig(device, "memory_bytes", -1) : whole(device->gpu, "memory_bytes", -1);
  if (known < 0) return NOT_SUPPORTED;
  *total = (u64)known;
  *used = (u64)(is_mig ? of_mig(device, "memory_used_bytes", 0) : whole(device->gpu, "memory_used_bytes", 0));
  if (*used > *total) *used = *total;
  return SUCCESS;
}

ENTRY nvmlReturn_t nvmlDeviceGetMemoryInfo(nvmlDevice_t device, Memory *memory) {
  DEVICE(device);
  nvmlReturn_t code = read_memory(device, &memory->total, &memory->used);
  if (!code) memory->free = memory->total - memory->used;
  return code;
}

ENTRY nvmlReturn_t nvmlDeviceGetMemoryInfo_v2(nvmlDevice_t device, Memory_v2 *memory) {
  DEVICE(device);
  nvmlReturn_t code = read_memory(device, &memory->total, &memory->used);
  if (!code) memory->free = memory->total - memory->used;
  memory->reserved = 0;
  return code;
}

/* The first version of the structure ends before the instances. */
typedef struct { unsigned pid; u64 memory; } Process_v1;
typedef struct { unsigned pid; u64 memory; unsigned gpu_instance, compute_instance; } Process;

/* The processes of one kind ("compute" or "graphics"). Unknown memory is all ones, as on Windows. */
static nvmlReturn_t give_processes(nvmlDevice_t device, const char *kind, unsigned *count, void *rows, size_t size,
                                   const char *call) {
  if (!users) return UNINITIALIZED;
  int code = fault(call, device->gpu);
  unsigned found = 0, room = rows ? *count : 0;
  if (code) return code;
  for (int place = 0; place < (int)whole(device->gpu, "processes", 0); place++) {
    const char *own = listed(device->gpu, "processes", place, "kind");
    if (strcmp(own ? own : "compute", kind)) continue;
    if (found < room) {
      Process process = {(unsigned)listed_number(device->gpu, "processes", place, "pid", 0),
                         (u64)listed_number(device->gpu, "processes", place, "memory_bytes", -1), -1u, -1u};
      memcpy((char *)rows + found * size, &process, size);
    }
    found++;
  }
  *count = found;
  return found > room ? INSUFFICIENT_SIZE : SUCCESS;
}

#define PROCESSES(call, kind, type)                                                           \
  ENTRY nvmlReturn_t call(nvmlDevice_t device, unsigned *count, type *rows) {                 \
    return give_processes(device, kind, count, rows, sizeof *rows, __func__);                 \
  }
PROCESSES(nvmlDeviceGetComputeRunningProcesses, "compute", Process_v1)
PROCESSES(nvmlDeviceGetComputeRunningProcesses_v2, "compute", Process)
PROCESSES(nvmlDeviceGetComputeRunningProcesses_v3, "compute", Process)
PROCESSES(nvmlDeviceGetGraphicsRunningProcesses, "graphics", Process_v1)
PROCESSES(nvmlDeviceGetGraphicsRunningProcesses_v2, "graphics", Process)
PROCESSES(nvmlDeviceGetGraphicsRunningProcesses_v3, "graphics", Process)
PROCESSES(nvmlDeviceGetMPSComputeRunningProcesses_v3, "mps", Process)

typedef struct { unsigned pid; u64 at_us; unsigned sm, memory, encoder, decoder; } ProcessUse;

/* A sample of each process whose use is known. */
ENTRY nvmlReturn_t nvmlDeviceGetProcessUtilization(nvmlDevice_t device, ProcessUse *rows, unsigned *count, u64 since_us) {
  DEVICE(device);
  unsigned found = 0, room = rows ? *count : 0;
  for (int place = 0; place < (int)whole(device->gpu, "processes", 0); place++) {
    long long sm = listed_number(device->gpu, "processes", place, "utilization_percent", -1);
    if (sm < 0) continue;
    if (found < room)
      rows[found] = (ProcessUse){(unsigned)listed_number(device->gpu, "processes", place, "pid", 0), since_us + 1,
                                 (unsigned)sm, 0, 0, 0};
    found++;
  }
  *count = found;
  return !found ? NOT_SUPPORTED : found > room ? INSUFFICIENT_SIZE : SUCCESS;
}

ENTRY nvmlReturn_t nvmlSystemGetProcessName(unsigned pid, char *name, unsigned length) {
  MACHINE;
  for (int gpu = 0; gpu < gpu_count; gpu++)
    for (int place = 0; place < (int)whole(gpu, "processes", 0); place++)
      if (listed_number(gpu, "processes", place, "pid", -1) == (long long)pid)
        return give_text(listed(gpu, "processes", place, "name"), name, length);
  return NOT_FOUND;
}

#include "nvml_readings.h"
#include "nvml_links.h"
#include "nvml_software.h"
