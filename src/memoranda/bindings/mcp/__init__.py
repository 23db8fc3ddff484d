"""UMP over the Model Context Protocol (UMP section 4.1). Importing the SDK takes half a second: load it late."""
