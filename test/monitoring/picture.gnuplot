# The picture of test/monitoring/run.
set terminal pngcairo size 900,360 font 'sans,10'
set output out
set key outside top center horizontal
set grid
set xlabel 'seconds'
set ylabel 'calls a second'
set y2label 'replay ratio of the last minute'
set yrange [0:*]
set y2range [0:1]
set ytics nomirror
set y2tics
plot data using 1:2 with lines lw 2 title 'calls', \
	data using 1:3 with lines lw 2 title 'of these, repeats', \
	data using 1:4 axes x1y2 with lines lw 2 title 'replay ratio'
