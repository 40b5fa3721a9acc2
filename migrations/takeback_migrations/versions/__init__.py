"""The revisions, in order: ``NNNN_pre_…`` runs before a release is deployed, ``NNNN_post_…`` after."""
