"""Back ends that stand between a store and its back end."""
