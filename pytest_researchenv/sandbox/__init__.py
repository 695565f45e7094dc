"""Containers, images, read-only tool volumes and the reaper."""
