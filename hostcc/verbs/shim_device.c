// SPDX-License-Identifier: Apache-2.0
/*
 * Devices that the job has open, and what their providers do when it posts or polls.
 *
 * Every post and poll looks here, without a lock; so a place is given back only when the job
 * closes the device, because nobody may use it any more.
 */
#include "shim.h"

#include <stdint.h>

#define MAX_DEVICES 256 /* devices open at once; further ones pass unchanged */

static struct shim_device places[MAX_DEVICES];
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static struct shim_device *place(const struct ibv_context *context, uint32_t index)
{
	uint64_t mixed = ((uint64_t)(uintptr_t)context >> 4) * 0x9e3779b97f4a7c15ull;

	return &places[((mixed >> 32) + index) % MAX_DEVICES];
}

struct shim_device *shim_device_find(const struct ibv_context *context)
{
	for (uint32_t index = 0; index < MAX_DEVICES; index++) {
		struct shim_device *one = place(context, index);

		if (atomic_load_explicit(&one->context, memory_order_acquire) == context)
			return one;
		if (!atomic_load_explicit(&one->taken, memory_order_relaxed))
			return NULL; /* never was anybody's, so nobody was pushed further */
	}
	return NULL;
}

static struct shim_device *room_for(const struct ibv_context *context)
{
	struct shim_device *one = shim_device_find(context);

	for (uint32_t index = 0; !one && index < MAX_DEVICES; index++)
		if (!atomic_load(&place(context, index)->context))
			one = place(context, index);
	return one;
}

int shim_device_hook(struct ibv_context *context, shim_post post, shim_poll poll)
{
	struct shim_device *one;

	pthread_mutex_lock(&lock);
	one = room_for(context);
	/* Once: what is there later may be another tool's, which calls us. */
	if (one && one->context != context) {
		one->post = context->ops.post_send;
		one->poll = context->ops.poll_cq;
		atomic_store(&one->taken, 1);
		atomic_store_explicit(&one->context, context, memory_order_release);
		__atomic_store_n(&context->ops.poll_cq, poll, __ATOMIC_RELEASE);
		__atomic_store_n(&context->ops.post_send, post, __ATOMIC_RELEASE);
	}
	pthread_mutex_unlock(&lock);
	return one ? 0 : -1;
}

void shim_device_forget(struct ibv_context *context)
{
	struct shim_device *one;

	pthread_mutex_lock(&lock);
	one = shim_device_find(context);
	if (one) {
		/* As it was, should closing it fail. */
		__atomic_store_n(&context->ops.post_send, one->post, __ATOMIC_RELEASE);
		__atomic_store_n(&context->ops.poll_cq, one->poll, __ATOMIC_RELEASE);
		atomic_store(&one->context, NULL);
	}
	pthread_mutex_unlock(&lock);
}
