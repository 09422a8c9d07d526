// Whether a sanitizer watches this build: it takes memory of its own, and many times the time.
#pragma once

namespace upscaled {

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
inline constexpr bool kSanitized = true;
#else
inline constexpr bool kSanitized = false;
#endif

}  // namespace upscaled
