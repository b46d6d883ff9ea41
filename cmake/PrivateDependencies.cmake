# The system libraries that liblockstep uses inside. None of them appears in a public header, so users of the shared
# library need none of them; a static build links them, so lockstep-config.cmake finds them again there, from the one
# list below.

# Packages by find_package name, and the same by pkg-config name for lockstep.pc.
set(lockstep_private_packages Threads fmt hwy PNG JPEG ZLIB OpenSSL)
set(lockstep_private_pkgconfig fmt libhwy libpng libjpeg zlib libcrypto)
foreach(package IN LISTS lockstep_private_packages)
  find_package(${package} REQUIRED)
endforeach()
set(lockstep_private_libraries
  Threads::Threads fmt::fmt hwy::hwy PNG::PNG JPEG::JPEG ZLIB::ZLIB
  OpenSSL::Crypto ${CMAKE_DL_LIBS})

# Headers only: nothing is left of them after the compilation.
find_package(nlohmann_json REQUIRED)
find_path(XXHASH_INCLUDE_DIR xxhash.h REQUIRED)
find_path(VULKAN_INCLUDE_DIR vulkan/vulkan_core.h REQUIRED)  # the loader is opened at run time
find_path(CURL_INCLUDE_DIR curl/curl.h REQUIRED)             # so is libcurl (io/hub/curl.h)
list(APPEND lockstep_private_libraries $<BUILD_INTERFACE:nlohmann_json::nlohmann_json>)
