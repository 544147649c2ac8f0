"""Make facts and logs safe to share: remove everything that identifies their owner or origin."""
