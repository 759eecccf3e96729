"""Two stages between what a model wrote and a training job: reading it, then a trial on recorded inputs. See docs/modules.md."""
