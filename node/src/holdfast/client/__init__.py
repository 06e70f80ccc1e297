"""How programs talk to a cluster: `http` for control, `grid` for data.

http.HttpClient   typed questions and wishes over HTTP; used by the command line
grid.Grid         keys and values over Redis' protocol, each command straight to its owner
bulk.Bulk         whole partitions: read at one moment, followed
bulk_jobs.Job     what many tasks write, shown at once at its end
"""
