"""The FIX gateway, tried with messages of simplefix, with jspurefix and with QuickFIX."""
