/* NVML's readings of a GPU's links: PCI Express, NVLink, the fabric of NVSwitches. Part of libnvidia_ml.c. */

NUMBER(nvmlDeviceGetCurrPcieLinkGeneration, "pcie.generation", 1)
NUMBER(nvmlDeviceGetCurrPcieLinkWidth, "pcie.width", 1)
NUMBER(nvmlDeviceGetMaxPcieLinkGeneration, "pcie.max_generation", 1)
NUMBER(nvmlDeviceGetMaxPcieLinkWidth, "pcie.max_width", 1)
NUMBER(nvmlDeviceGetGpuMaxPcieLinkGeneration, "pcie.gpu_max_generation", 1)
NUMBER(nvmlDeviceGetPcieReplayCounter, "pcie.replays", 1)

ENTRY nvmlReturn_t nvmlDeviceGetBusType(nvmlDevice_t device, unsigned *type) {
  static const char *const types[] = {"unknown", "pci", "pcie", "fpci", "agp"};
  DEVICE(device);
  int found = place_in(text(device->gpu, "pcie.bus"), types, 5);
  if (found < 0) return NOT_SUPPORTED;
  *type = (unsigned)found;
  return SUCCESS;
}

NUMBER(nvmlDeviceGetC2cModeInfoV, "chip_to_chip", 1) /* its structure is one number */

static nvmlReturn_t give_link(nvmlDevice_t device, unsigned link, const char *name, u64 *answer) {
  long long count = whole(device->gpu, "nvlinks", -1);
  if (count <= 0) return NOT_SUPPORTED;
  if ((long long)link >= count) return INVALID_ARGUMENT;
  *answer = (u64)listed_number(device->gpu, "nvlinks", (int)link, name, 0);
  return SUCCESS;
}

ENTRY nvmlReturn_t nvmlDeviceGetNvLinkState(nvmlDevice_t device, unsigned link, unsigned *active) {
  u64 answer = 0;
  DEVICE(device);
  nvmlReturn_t code = give_link(device, link, "active", &answer);
  if (!code) *active = answer != 0;
  return code;
}

ENTRY nvmlReturn_t nvmlDeviceGetNvLinkErrorCounter(nvmlDevice_t device, unsigned link, unsigned counter, u64 *count) {
  static const char *const names[] = {"replays", "recoveries", "crc_flit_errors", "crc_data_errors", "ecc_errors"};
  DEVICE(device);
  return counter < 5 ? give_link(device, link, names[counter], count) : INVALID_ARGUMENT;
}

ENTRY nvmlReturn_t nvmlDeviceGetNvLinkVersion(nvmlDevice_t device, unsigned link, unsigned *version) {
  u64 answer = 0;
  DEVICE(device);
  nvmlReturn_t code = give_link(device, link, "version", &answer);
  if (!code && !listed(device->gpu, "nvlinks", (int)link, "version")) code = NOT_SUPPORTED;
  if (!code) *version = (unsigned)answer;
  return code;
}

ENTRY nvmlReturn_t nvmlDeviceGetNvLinkRemoteDeviceType(nvmlDevice_t device, unsigned link, unsigned *type) {
  static const char *const types[] = {"gpu", "npu", "switch"};
  u64 answer = 0;
  DEVICE(device);
  nvmlReturn_t code = give_link(device, link, "active", &answer);
  int found = place_in(listed(device->gpu, "nvlinks", (int)link, "remote"), types, 3);
  if (!code) *type = found < 0 ? 0xff : (unsigned)found;
  return code;
}

/* Each version of the structure, except for the first, begins with the version number, whose low bits are its size. */
typedef struct { unsigned char cluster[16]; nvmlReturn_t status; unsigned clique, state; } Fabric_v1;
typedef struct { unsigned version; Fabric_v1 fabric; unsigned health; } Fabric_v2;

static nvmlReturn_t give_fabric(nvmlDevice_t device, Fabric_v1 *fabric) {
  static const char *const states[] = {"not_supported", "not_started", "in_progress", "completed"};
  int state = place_in(text(device->gpu, "fabric.state"), states, 4);
  if (state < 0) return NOT_SUPPORTED; /* TensorFlow queries it for the description of a GPU; without a result it continues */
  memset(fabric, 0, sizeof *fabric);
  fabric->state = (unsigned)state;
  fabric->status = (nvmlReturn_t)whole(device->gpu, "fabric.status", 0);
  return SUCCESS;
}

ENTRY nvmlReturn_t nvmlDeviceGetGpuFabricInfo(nvmlDevice_t device, Fabric_v1 *info) {
  DEVICE(device);
  return give_fabric(device, info);
}

ENTRY nvmlReturn_t nvmlDeviceGetGpuFabricInfoV(nvmlDevice_t device, Fabric_v2 *info) {
  DEVICE(device);
  if ((info->version & 0xffffff) < sizeof *info) return VERSION_MISMATCH;
  info->health = 0;
  return give_fabric(device, &info->fabric);
}
