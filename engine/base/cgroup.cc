#include "engine/base/cgroup.h"

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <limits>
#include <sstream>
#include <string>

namespace upscaled {
namespace {

constexpr double kNoLimit = std::numeric_limits<double>::infinity();

// Version 2: "max 100000" or "150000 100000".
double QuotaV2(const std::filesystem::path& group) {
  std::string quota_us;
  double period_us = 0;
  std::ifstream(group / "cpu.max") >> quota_us >> period_us;
  const double quota = std::strtod(quota_us.c_str(), nullptr);
  return quota > 0 && period_us > 0 ? quota / period_us : kNoLimit;
}

// Version 1: -1 is no limit.
double QuotaV1(const std::filesystem::path& group) {
  double quota_us = 0, period_us = 0;
  std::ifstream(group / "cpu.cfs_quota_us") >> quota_us;
  std::ifstream(group / "cpu.cfs_period_us") >> period_us;
  return quota_us > 0 && period_us > 0 ? quota_us / period_us : kNoLimit;
}

// The minimum of `group` (below `mount`, beginning with a slash) and all above it.
double MinQuota(double (*quota_of)(const std::filesystem::path&),
                const std::filesystem::path& mount, std::filesystem::path group) {
  double min_quota = quota_of(mount);
  for (group = group.relative_path(); !group.empty(); group = group.parent_path()) {
    min_quota = std::min(min_quota, quota_of(mount / group));
  }
  return min_quota;
}

bool ListsCpu(const std::string& controllers) {
  std::istringstream list(controllers);
  for (std::string name; std::getline(list, name, ',');) {
    if (name == "cpu") return true;
  }
  return false;
}

}  // namespace

double CgroupCpuQuota(std::string_view membership, const std::filesystem::path& mount) {
  double min_quota = kNoLimit;
  std::istringstream lines{std::string(membership)};
  // "hierarchy:controllers:path"; version 2 is hierarchy 0 without controllers.
  for (std::string line; std::getline(lines, line);) {
    std::istringstream fields(line);
    std::string hierarchy, controllers, path;
    std::getline(fields, hierarchy, ':');
    std::getline(fields, controllers, ':');
    std::getline(fields, path);
    if (hierarchy == "0" && controllers.empty()) {
      min_quota = std::min(min_quota, MinQuota(&QuotaV2, mount, path));
    } else if (ListsCpu(controllers)) {
      min_quota = std::min(min_quota, MinQuota(&QuotaV1, mount / "cpu", path));
    }
  }
  return min_quota;
}

}  // namespace upscaled
