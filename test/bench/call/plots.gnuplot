# The plots of docs/performance.md; reads plots.dat, whose blocks have names.
set terminal svg size 720,360 dynamic font 'sans,12' background 'white'
set grid ytics
set key outside right top
set ylabel 'calls per second'
set yrange [0:*]
set style data linespoints

set output 'performance-clients.svg'
set logscale x 2
set xlabel 'clients'
plot for [v in 'replay-handle replay-plpgsql replay-nothing new-handle new-plpgsql new-insert'] \
	'plots.dat' index 'clients-'.v using 1:2 title v

set output 'performance-repeats.svg'
unset logscale
set xlabel 'repeats, %'
plot for [v in 'handle plpgsql cte client'] 'plots.dat' index 'repeats-'.v using 1:2 title v

set output 'performance-growth.svg'
set logscale x 10
set format x '10^{%T}'
set xlabel 'claims'
plot for [v in 'replay any new'] 'plots.dat' index 'growth-'.v using 1:2 title v
