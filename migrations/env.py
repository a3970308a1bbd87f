"""Runs the migrations on the connection, with its open transaction, that the caller put into the configuration."""

from alembic import context

connection = context.config.attributes["connection"]
if connection.dialect.name == "sqlite":  # Alembic's own table would not be STRICT
    connection.exec_driver_sql(
        "create table if not exists alembic_version (version_num text not null primary key) strict"
    )
context.configure(connection=connection)
with context.begin_transaction():
    context.run_migrations()
