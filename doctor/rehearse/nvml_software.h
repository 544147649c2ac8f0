/* NVML's software properties of a GPU: brand, firmware, virtualization, its license, excluded GPUs. Part of libnvidia_ml.c. */

ENTRY nvmlReturn_t nvmlDeviceGetBrand(nvmlDevice_t device, unsigned *brand) {
  static const char *const brands[] = {"unknown", "quadro", "tesla", "nvs", "grid", "geforce", "titan", "vapps", "vpc", "vcs",
                                       "vws", "cloud_gaming", "quadro_rtx", "nvidia_rtx", "nvidia"};
  DEVICE(device);
  int found = place_in(text(device->gpu, "brand"), brands, sizeof brands / sizeof *brands);
  if (found < 0) return NOT_SUPPORTED;
  *brand = (unsigned)found;
  return SUCCESS;
}

/* This NVML call has no length argument: the buffer has 64 bytes. */
ENTRY nvmlReturn_t nvmlDeviceGetGspFirmwareVersion(nvmlDevice_t device, char *version) {
  DEVICE(device);
  return give_text(text(device->gpu, "gsp_firmware"), version, 64);
}

ENTRY nvmlReturn_t nvmlDeviceGetVirtualizationMode(nvmlDevice_t device, unsigned *mode) {
  static const char *const modes[] = {"none", "passthrough", "vgpu", "host_vgpu", "host_vsga"};
  DEVICE(device);
  int found = place_in(text(device->gpu, "virtualization"), modes, 5);
  if (found < 0) return NOT_SUPPORTED;
  *mode = (unsigned)found;
  return SUCCESS;
}

typedef struct {
  unsigned code, state;
  char licence[128], product[128];
  unsigned enabled;
  struct { unsigned year; unsigned short month, day, hour, minute, second; unsigned char status; } expiry;
} Feature;
typedef struct { int supported; unsigned count; Feature features[3]; } Features;

ENTRY nvmlReturn_t nvmlDeviceGetGridLicensableFeatures_v4(nvmlDevice_t device, Features *answer) {
  DEVICE(device);
  const char *licence = text(device->gpu, "licence");
  if (!licence) return NOT_SUPPORTED;
  memset(answer, 0, sizeof *answer);
  answer->supported = 1;
  answer->count = 1;
  answer->features[0].code = 4; /* NVML_GRID_LICENSE_FEATURE_CODE_COMPUTE */
  answer->features[0].state = !strcmp(licence, "licensed");
  answer->features[0].enabled = 1;
  return give_text("NVIDIA Virtual Compute Server", answer->features[0].product, 128);
}

ENTRY nvmlReturn_t nvmlGetExcludedDeviceCount(unsigned *count) {
  MACHINE;
  *count = (unsigned)whole(NO_GPU, "excluded_gpus", 0);
  return SUCCESS;
}

typedef struct { PciInfo pci; char uuid[80]; } Excluded;

ENTRY nvmlReturn_t nvmlGetExcludedDeviceInfoByIndex(unsigned index, Excluded *info) {
  MACHINE;
  const char *address = listed(NO_GPU, "excluded_gpus", (int)index, "");
  if (!address) return INVALID_ARGUMENT;
  memset(info, 0, sizeof *info);
  if (sscanf(address, "%x:%x:%x", &info->pci.domain, &info->pci.bus, &info->pci.device) != 3) return NOT_FOUND;
  write_pci_address(&info->pci);
  snprintf(info->uuid, sizeof info->uuid, "GPU-excluded-%u", index);
  return SUCCESS;
}
