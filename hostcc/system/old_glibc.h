/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Included before everything else in the libraries that jobs load: they need nothing newer than
 * glibc 2.28 (EL 8, Debian 10), whatever glibc they are compiled with.  A container's glibc is not
 * the host's, and may be older.
 *
 * glibc 2.32 to 2.34 moved functions of libpthread and libdl into libc and gave them new versions;
 * the old ones are still there.  A library that uses these names also names the libraries that
 * they were in (OLD_GLIBC_LIBRARIES in cc.py).  stat() and its like were no functions of libc
 * before 2.33: what stood in a program called the ones below.
 */
#pragma once

#define _GNU_SOURCE
#include <sys/stat.h>

#if defined(__x86_64__)
#define HCC_OLDEST "GLIBC_2.2.5"
#define HCC_STAT_VERSION 1
#elif defined(__aarch64__)
#define HCC_OLDEST "GLIBC_2.17"
#define HCC_STAT_VERSION 0
#endif

#if defined(HCC_OLDEST) && defined(__GLIBC__)

#define HCC_OLD(name) __asm__(".symver " #name "," #name "@" HCC_OLDEST)

HCC_OLD(dladdr);
HCC_OLD(dlclose);
HCC_OLD(dlerror);
HCC_OLD(dlopen);
HCC_OLD(dlsym);
HCC_OLD(pthread_create);
HCC_OLD(pthread_detach);
HCC_OLD(pthread_join);
HCC_OLD(pthread_kill);
HCC_OLD(pthread_mutex_trylock);
HCC_OLD(pthread_once);
HCC_OLD(pthread_sigmask);
HCC_OLD(__fxstat);
HCC_OLD(__lxstat);
HCC_OLD(__xstat);

int __fxstat(int version, int descriptor, struct stat *facts);
int __lxstat(int version, const char *path, struct stat *facts);
int __xstat(int version, const char *path, struct stat *facts);

#define fstat(descriptor, facts) __fxstat(HCC_STAT_VERSION, descriptor, facts)
#define lstat(path, facts) __lxstat(HCC_STAT_VERSION, path, facts)
#define stat(path, facts) __xstat(HCC_STAT_VERSION, path, facts)

#endif
