"""The revisions, in order: ``NNNN_pre_…`` before a release is deployed, ``NNNN_post_…`` after."""
