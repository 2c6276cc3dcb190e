"""Everything done once or now and then: fetching models, learning a repository."""
