// Early return on a non-OK absl::Status. Both evaluate their expression once.
#pragma once

#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

#define UPSCALED_CONCAT_INNER(a, b) a##b
#define UPSCALED_CONCAT(a, b) UPSCALED_CONCAT_INNER(a, b)

#define RETURN_IF_ERROR(expr)                                               \
  do {                                                                      \
    if (absl::Status status_macro_value = (expr); !status_macro_value.ok()) \
      return status_macro_value;                                            \
  } while (false)

#define ASSIGN_OR_RETURN(lhs, expr) \
  ASSIGN_OR_RETURN_INNER(UPSCALED_CONCAT(status_or_value_, __LINE__), lhs, expr)

#define ASSIGN_OR_RETURN_INNER(status_or, lhs, expr) \
  auto status_or = (expr);                           \
  if (!status_or.ok()) return status_or.status();    \
  lhs = std::move(status_or).value()
