"""What charts show, as data: no drawing here. app/dashboard/drawing/ has a renderer for each kind."""
