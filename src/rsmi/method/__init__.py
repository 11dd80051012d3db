"""The method, one file per arrow: tokens, encoder, noise, saliency, masking, voting, stopping, decision, inference."""
