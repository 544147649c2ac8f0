"""What may leave the machine: facts and logs without what tells who and where they are from."""
