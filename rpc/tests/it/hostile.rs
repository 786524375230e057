//! Made-up and broken bytes: any value comes back as it went, and whatever is sent is a value or an error, in bounded memory.
