"""The documents as a site: the pages that Zensical makes HTML of, and its configuration."""
