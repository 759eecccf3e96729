"""The full rule book: every order type, settling, phases and auctions, accounts; docs/orders.md. Reached through a pointer from the plain one."""
