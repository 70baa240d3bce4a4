// SPDX-License-Identifier: GPL-2.0-or-later
//! Source trees, patch application, sandboxed builds, image cache.
