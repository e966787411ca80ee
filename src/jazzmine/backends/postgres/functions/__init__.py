"""The functions of the schema, one file each; `$schema` stands for the name of the schema."""
