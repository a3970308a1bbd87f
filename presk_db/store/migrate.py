"""Runs the migrations on an open connection: the one module that knows Alembic."""

from alembic import command
from alembic.config import Config
from sqlalchemy import Connection, text

from presk_db.errors import DatabaseDamaged
from presk_db.resources import resource_folder


def migrate(connection: Connection, revision: str = "head") -> None:
    """Moves the database to `revision`, up or down, inside the connection's transaction; foreign keys must be off.

    Raises:
        DatabaseDamaged: E5005, where rows refer to nothing afterwards.
    """
    config = Config()
    config.set_main_option("script_location", str(resource_folder("migrations")).replace("%", "%%"))
    config.set_main_option("path_separator", "os")
    config.attributes["connection"] = connection
    if revision == "head":
        command.upgrade(config, "head")
    else:
        command.downgrade(config, revision)
    broken = connection.execute(text("pragma foreign_key_check")).first()
    if broken:
        raise DatabaseDamaged(f"table {broken[0]}, row {broken[1]} refers to no row of {broken[2]}")
